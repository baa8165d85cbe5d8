%% A token walks through so many living processes, in mixed order.
%% Prints: nanoseconds, hops.
-module(growth).
-export([main/1, wait/1]).

main([Size, Actors]) ->
    N = list_to_integer(Size),
    A = list_to_integer(Actors),
    rand:seed(exsss, 1),
    Members = [spawn_link(?MODULE, wait, [self()]) || _ <- lists:seq(1, A)],
    [First | Rest] = Order = [Member || {_, Member} <- lists:sort([{rand:uniform(), Member} || Member <- Members])],
    link_up(Order, Rest ++ [First]),
    lists:foreach(fun(_) -> receive linked -> ok end end, Members),
    erlang:garbage_collect(),
    Start = erlang:monotonic_time(nanosecond),
    First ! N - 1,
    receive {done, Left} -> ok end,
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, N - Left]).

link_up([], []) ->
    ok;
link_up([Member | Members], [Following | Others]) ->
    Member ! {following, Following},
    link_up(Members, Others).

wait(Main) ->
    receive {following, Following} -> Main ! linked, hop(Main, Following) end.

hop(Main, Following) ->
    receive
        0 -> Main ! {done, 0};
        K -> Following ! K - 1, hop(Main, Following)
    end.
