%% Make a process, send it a message, have it end; so many living at a time.
%% Prints: nanoseconds, processes that have handled their message and ended.
-module(create).
-export([main/1]).

main([Size, Burst]) ->
    N = list_to_integer(Size),
    B = list_to_integer(Burst),
    Main = self(),
    Total = counters:new(1, []),
    Start = erlang:monotonic_time(nanosecond),
    bursts(N div B, B, Main, Total),
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, counters:get(Total, 1)]),
    halt(0).

bursts(0, _, _, _) ->
    ok;
bursts(Bursts, B, Main, Total) ->
    create(B, Main, Total),
    receive go -> ok end,
    bursts(Bursts - 1, B, Main, Total).

create(0, _, _) ->
    ok;
create(Left, Main, Total) ->
    spawn(fun() -> live(Main, Total) end) ! Left,
    create(Left - 1, Main, Total).

live(Main, Total) ->
    receive
        1 -> counters:add(Total, 1, 1), Main ! go;
        _ -> counters:add(Total, 1, 1)
    end.
