%% One message round a ring of so many processes.
%% Prints: nanoseconds, hops.
-module(ring).
-export([main/1]).

main([Size, Actors]) ->
    N = list_to_integer(Size),
    A = list_to_integer(Actors),
    Main = self(),
    Members = [First | Rest] = [spawn_link(fun() -> wait(Main) end) || _ <- lists:seq(1, A)],
    lists:foreach(fun({Member, Next}) -> Member ! {next, Next} end, lists:zip(Members, Rest ++ [First])),
    Start = erlang:monotonic_time(nanosecond),
    First ! N - 1,
    receive {done, Left} -> ok end,
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, N - Left]).

wait(Main) ->
    receive {next, Next} -> hop(Main, Next) end.

hop(Main, Next) ->
    receive
        0 -> Main ! {done, 0};
        K -> Next ! K - 1, hop(Main, Next)
    end.
