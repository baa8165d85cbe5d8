%% Timers set by one process and due soon, as many for each of a row of others, which count their messages.
%% Prints: nanoseconds, messages of timers.
-module(fired).
-export([main/1]).

main([Size, Actors]) ->
    N = list_to_integer(Size),
    A = list_to_integer(Actors),
    Share = N div A,
    Main = self(),
    Members = [{spawn_link(fun() -> wait(Main, Share, 0) end), I rem 10 + 1} || I <- lists:seq(0, A - 1)],
    Start = erlang:monotonic_time(nanosecond),
    schedule(Share, Members),
    Total = lists:sum([receive {total, Member, Total} -> Total end || {Member, _} <- Members]),
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, Total]).

schedule(0, _) ->
    ok;
schedule(Left, Members) ->
    lists:foreach(fun({Member, Ms}) -> erlang:send_after(Ms, Member, 1) end, Members),
    schedule(Left - 1, Members).

wait(Main, 0, Total) ->
    Main ! {total, self(), Total};
wait(Main, Left, Total) ->
    receive One -> wait(Main, Left - 1, Total + One) end.
