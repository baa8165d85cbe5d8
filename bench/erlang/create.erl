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
    settle(Total, N),
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, counters:get(Total, 1)]).

bursts(0, _, _, _) ->
    ok;
bursts(Bursts, B, Main, Total) ->
    create(B, Main, Total),
    receive go -> ok end,
    bursts(Bursts - 1, B, Main, Total).

%% The last that was made is not the last that lives where there are several schedulers.
settle(Total, N) ->
    case counters:get(Total, 1) of
        N -> ok;
        _ -> erlang:yield(), settle(Total, N)
    end.

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
