%% One process deals messages out to so many workers, in bursts; the last worker's last tells the dealer to go on.
%% Prints: nanoseconds, messages that the workers have counted.
-module(forkjoin).
-export([main/1]).

main([Size, Workers, Burst]) ->
    N = list_to_integer(Size),
    W = list_to_integer(Workers),
    B = list_to_integer(Burst),
    Main = self(),
    Dealer = spawn_link(fun() -> wait(Main, B) end),
    Pids = [spawn_link(fun() -> work(Dealer, 0) end) || _ <- lists:seq(1, W)],
    Dealer ! {workers, Pids},
    Start = erlang:monotonic_time(nanosecond),
    Dealer ! N div (W * B),
    receive done -> ok end,
    %% Each of them is asked after its last message, and so answers when it has handled it.
    lists:foreach(fun(Pid) -> Pid ! {total, Main} end, Pids),
    Total = lists:sum([receive {total, Count} -> Count end || _ <- Pids]),
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, Total]).

wait(Main, B) ->
    receive {workers, Pids} -> {Others, [Last]} = lists:split(length(Pids) - 1, Pids), deal(Main, B, Others, Last) end.

deal(Main, B, Others, Last) ->
    receive
        0 -> Main ! done;
        Burst -> rounds(B, Burst, Others, Last), deal(Main, B, Others, Last)
    end.

rounds(1, Burst, Others, Last) ->
    lists:foreach(fun(Pid) -> Pid ! 0 end, Others),
    Last ! Burst;
rounds(Left, Burst, Others, Last) ->
    lists:foreach(fun(Pid) -> Pid ! 0 end, Others),
    Last ! 0,
    rounds(Left - 1, Burst, Others, Last).

work(Dealer, Total) ->
    receive
        0 -> work(Dealer, Total + 1);
        {total, Main} -> Main ! {total, Total};
        LastOf -> Dealer ! LastOf - 1, work(Dealer, Total + 1)
    end.
