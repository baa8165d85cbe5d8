%% So many processes send to one, in bursts; the sink answers the last of a burst, and its sender goes on.
%% Prints: nanoseconds, messages that the sink has counted.
-module(fanin).
-export([main/1]).

main([Size, Senders, Burst]) ->
    N = list_to_integer(Size),
    S = list_to_integer(Senders),
    B = list_to_integer(Burst),
    Main = self(),
    Sink = spawn_link(fun() -> count(Main, N, 0) end),
    Producers = [spawn_link(fun() -> produce(Sink, B, N div (S * B)) end) || _ <- lists:seq(1, S)],
    Start = erlang:monotonic_time(nanosecond),
    lists:foreach(fun(Producer) -> Producer ! go end, Producers),
    receive {total, Total} -> ok end,
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, Total]).

produce(Sink, B, Left) ->
    receive
        go when Left > 0 -> send(B - 1, Sink), Sink ! self(), produce(Sink, B, Left - 1);
        go -> produce(Sink, B, 0)
    end.

send(0, _) ->
    ok;
send(Left, Sink) ->
    Sink ! none,
    send(Left - 1, Sink).

count(Main, N, N) ->
    Main ! {total, N};
count(Main, N, Total) ->
    receive
        none -> count(Main, N, Total + 1);
        LastOf -> LastOf ! go, count(Main, N, Total + 1)
    end.
