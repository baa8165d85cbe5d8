%% So many workers ask one sorted list what is in it, and change it, each waiting for its answer.
%% Prints: nanoseconds, requests and answers that the store and the workers have handled.
-module(sortedlist).
-export([main/1]).

main(Arguments) ->
    [Requests, Workers, Values, Sizes, Writes, Right, Inside] = lists:map(fun list_to_integer/1, Arguments),
    Main = self(),
    Store = spawn_link(fun() -> store(lists:seq(0, Values * Workers - 1, 2), 0) end),
    Crew = [spawn_link(fun() -> worker(Main, Store, orders(I, Requests, Workers, Values, Sizes, Writes)) end)
            || I <- lists:seq(0, Workers - 1)],
    %% They make their orders before the clock starts.
    lists:foreach(fun(_) -> receive ready -> ok end end, Crew),
    Start = erlang:monotonic_time(nanosecond),
    lists:foreach(fun(Worker) -> Worker ! go end, Crew),
    Sums = [receive {left, Answered, Sum} -> {Answered, Sum} end || _ <- Crew],
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Right = lists:sum([Sum || {_, Sum} <- Sums]),
    Store ! {served, Main},
    receive {served, Served, List} -> ok end,
    Inside = lists:sum(List),
    io:format("~b ~b~n", [Elapsed, Served + lists:sum([Answered || {Answered, _} <- Sums])]).

store(List, Served) ->
    receive
        {contains, Who, Value} ->
            Who ! contains(Value, List),
            store(List, Served + 1);
        {change, Who, Value} ->
            {Answer, Changed} = change(Value, List),
            Who ! Answer,
            store(Changed, Served + 1);
        {size, Who} ->
            Who ! {size, length(List)},
            store(List, Served + 1);
        {served, Main} ->
            Main ! {served, Served, List}
    end.

contains(Value, [Smaller | List]) when Smaller < Value -> contains(Value, List);
contains(Value, [Value | _]) -> 1;
contains(_, _) -> 0.

change(Value, [Smaller | List]) when Smaller < Value ->
    {Answer, Changed} = change(Value, List),
    {Answer, [Smaller | Changed]};
change(Value, [Value | List]) ->
    {0, List};
change(Value, List) ->
    {1, [Value | List]}.

worker(Main, Store, Orders) ->
    Main ! ready,
    receive go -> ok end,
    work(Main, Store, Orders, 0, 0).

work(Main, _, [], Answered, Sum) ->
    Main ! {left, Answered, Sum};
work(Main, Store, [Order | Orders], Answered, Sum) ->
    case Order of
        {contains, Value} -> Store ! {contains, self(), Value};
        {change, Value} -> Store ! {change, self(), Value};
        {size, _} -> Store ! {size, self()}
    end,
    receive
        {size, _} -> work(Main, Store, Orders, Answered + 1, Sum);
        Answer -> work(Main, Store, Orders, Answered + 1, Sum + Answer)
    end.

orders(Worker, Requests, Workers, Values, Sizes, Writes) ->
    [{kind(Number rem 100, Sizes, Writes), (Number div 100 rem Values) * Workers + Worker}
     || Number <- draws(Worker + 1, Requests)].

kind(Percent, Sizes, _) when Percent < Sizes -> size;
kind(Percent, Sizes, Writes) when Percent < Sizes + Writes -> change;
kind(_, _, _) -> contains.

draws(_, 0) ->
    [];
draws(Seed, Left) ->
    Number = Seed * 16807 rem 2147483647,
    [Number | draws(Number, Left - 1)].
