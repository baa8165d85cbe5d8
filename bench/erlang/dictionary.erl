%% So many workers read and write one store, each waiting for its answer.
%% Prints: nanoseconds, requests and answers that the store and the workers have handled.
-module(dictionary).
-export([main/1]).

main(Arguments) ->
    [Requests, Workers, Keys, Values, Writes, Right] = lists:map(fun list_to_integer/1, Arguments),
    Main = self(),
    Store = spawn_link(fun() -> store(maps:from_list([{K, K} || K <- lists:seq(0, Keys * Workers - 1)]), 0) end),
    Crew = [spawn_link(fun() -> worker(Main, Store, orders(I, Requests, Workers, Keys, Values, Writes)) end)
            || I <- lists:seq(0, Workers - 1)],
    %% They make their orders before the clock starts.
    lists:foreach(fun(_) -> receive ready -> ok end end, Crew),
    Start = erlang:monotonic_time(nanosecond),
    lists:foreach(fun(Worker) -> Worker ! go end, Crew),
    Sums = [receive {left, Answered, Sum} -> {Answered, Sum} end || _ <- Crew],
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Right = lists:sum([Sum || {_, Sum} <- Sums]),
    Store ! {served, Main},
    receive {served, Served} -> ok end,
    io:format("~b ~b~n", [Elapsed, Served + lists:sum([Answered || {Answered, _} <- Sums])]).

store(Values, Served) ->
    receive
        {read, Who, Key} ->
            Who ! map_get(Key, Values),
            store(Values, Served + 1);
        {write, Who, Key, Value} ->
            Who ! Value,
            store(Values#{Key := Value}, Served + 1);
        {served, Main} ->
            Main ! {served, Served}
    end.

worker(Main, Store, Orders) ->
    Main ! ready,
    receive go -> ok end,
    work(Main, Store, Orders, 0, 0).

work(Main, _, [], Answered, Sum) ->
    Main ! {left, Answered, Sum};
work(Main, Store, [Order | Orders], Answered, Sum) ->
    case Order of
        {Key, none} -> Store ! {read, self(), Key};
        {Key, Value} -> Store ! {write, self(), Key, Value}
    end,
    receive Answer -> work(Main, Store, Orders, Answered + 1, Sum + Answer) end.

orders(Worker, Requests, Workers, Keys, Values, Writes) ->
    [{(Number div 100 rem Keys) * Workers + Worker, value(Number, Values, Writes)} || Number <- draws(Worker + 1, Requests)].

value(Number, Values, Writes) when Number rem 100 < Writes -> Number rem Values;
value(_, _, _) -> none.

draws(_, 0) ->
    [];
draws(Seed, Left) ->
    Number = Seed * 16807 rem 2147483647,
    [Number | draws(Number, Left - 1)].
