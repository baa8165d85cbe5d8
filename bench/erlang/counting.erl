%% One process sends another so many messages, in bursts; the last of a burst is answered, and the next begins.
%% Prints: nanoseconds, messages that were counted.
-module(counting).
-export([main/1]).

main([Size, Burst]) ->
    N = list_to_integer(Size),
    B = list_to_integer(Burst),
    Main = self(),
    Start = erlang:monotonic_time(nanosecond),
    Producer = spawn_link(fun() -> produce(B) end),
    Counter = spawn_link(fun() -> count(Main, Producer, 0) end),
    Producer ! {go, Counter, N div B},
    receive {total, Total} -> ok end,
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, Total]).

produce(B) ->
    receive
        {go, Counter, 0} -> Counter ! done;
        {go, Counter, Bursts} -> send(B - 1, Counter), Counter ! Bursts, produce(B)
    end.

send(0, _) ->
    ok;
send(Left, Counter) ->
    Counter ! 0,
    send(Left - 1, Counter).

count(Main, Producer, Total) ->
    receive
        0 -> count(Main, Producer, Total + 1);
        done -> Main ! {total, Total};
        LastOf -> Producer ! {go, self(), LastOf - 1}, count(Main, Producer, Total + 1)
    end.
