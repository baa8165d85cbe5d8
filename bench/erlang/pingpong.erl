%% One message to and fro between two processes.
%% Prints: nanoseconds, messages.
-module(pingpong).
-export([main/1]).

main([Size]) ->
    N = list_to_integer(Size),
    Main = self(),
    First = spawn_link(fun() -> wait(Main) end),
    Second = spawn_link(fun() -> wait(Main) end),
    First ! {other, Second},
    Second ! {other, First},
    Start = erlang:monotonic_time(nanosecond),
    First ! N - 1,
    receive {done, Left} -> ok end,
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, N - Left]).

wait(Main) ->
    receive {other, Other} -> hit(Main, Other) end.

hit(Main, Other) ->
    receive
        0 -> Main ! {done, 0};
        K -> Other ! K - 1, hit(Main, Other)
    end.
