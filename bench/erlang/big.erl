%% So many processes ping each other at random, each waiting for its pong.
%% Prints: nanoseconds, pings and pongs.
-module(big).
-export([main/1]).

main([Size, Actors]) ->
    N = list_to_integer(Size),
    A = list_to_integer(Actors),
    Pings = N div (2 * A),
    Main = self(),
    rand:seed(exsss, 1),
    Members = [spawn_link(fun() -> wait(Main) end) || _ <- lists:seq(1, A)],
    lists:foreach(fun(Member) -> Member ! {others, shuffled(Members -- [Member])} end, Members),
    Start = erlang:monotonic_time(nanosecond),
    lists:foreach(fun(Member) -> Member ! {go, Pings} end, Members),
    Pongs = lists:sum([receive {pongs, Pongs} -> Pongs end || _ <- Members]),
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, 2 * Pongs]).

shuffled(List) ->
    [Member || {_, Member} <- lists:sort([{rand:uniform(), Member} || Member <- List])].

%% A ping may come before the start.
wait(Main) ->
    receive {others, Others} -> receive {go, Pings} -> ping(Main, Others, Others, Pings, 0) end end.

ping(Main, All, _, 0, Pongs) ->
    Main ! {pongs, Pongs},
    serve(Main, All, [], -1, Pongs);
ping(Main, All, [], Left, Pongs) ->
    ping(Main, All, All, Left, Pongs);
ping(Main, All, [Other | Rest], Left, Pongs) ->
    Other ! self(),
    serve(Main, All, Rest, Left - 1, Pongs).

serve(Main, All, Rest, Left, Pongs) ->
    receive
        pong -> ping(Main, All, Rest, Left, Pongs + 1);
        Pinger -> Pinger ! pong, serve(Main, All, Rest, Left, Pongs)
    end.
