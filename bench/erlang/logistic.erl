%% So many workers ask as many computers for the next term of a logistic map, each waiting for its answer.
%% Prints: nanoseconds, messages, and the last term of each series.
-module(logistic).
-export([main/1]).

main(Arguments) ->
    [Terms, Series] = lists:map(fun list_to_integer/1, Arguments),
    Main = self(),
    Master = spawn_link(fun() -> direct(Main) end),
    Numbers = lists:seq(0, Series - 1),
    Computers = [spawn_link(fun() -> compute(3.46 + Number * 0.0025, 0) end) || Number <- Numbers],
    %% Off the heap: else every collection would walk through all that waits, and it would take ten times as long.
    Options = [link, {message_queue_data, off_heap}],
    Workers = [spawn_opt(fun() -> work(Main, Master, Computer, Number, (Number + 1) * 0.0025, 0) end, Options)
               || {Number, Computer} <- lists:zip(Numbers, Computers)],
    Start = erlang:monotonic_time(nanosecond),
    Master ! {start, Terms, Workers},
    Found = receive {found, List} -> List end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Told = lists:sum([receive {told, Worker, Count} -> Count end || Worker <- Workers]),
    lists:foreach(fun(Computer) -> Computer ! {count, Main} end, Computers),
    Asked = lists:sum([receive {asked, Computer, Count} -> Count end || Computer <- Computers]),
    io:format("~b ~b", [Elapsed, 1 + Told + Asked + length(Found)]),
    [io:format(" series~b ~w", [Number, X]) || {Number, X} <- Found],
    io:nl().

direct(Main) ->
    receive {start, Terms, Workers} ->
        deal(Terms, Workers),
        lists:foreach(fun(Worker) -> Worker ! last end, Workers),
        Main ! {found, [receive {found, Number, X} -> {Number, X} end || _ <- Workers]}
    end.

deal(0, _) ->
    ok;
deal(Left, Workers) ->
    lists:foreach(fun(Worker) -> Worker ! next end, Workers),
    deal(Left - 1, Workers).

compute(Rate, Asked) ->
    receive
        {Asker, Ref, X} -> Asker ! {Ref, Rate * X * (1 - X)}, compute(Rate, Asked + 1);
        {count, Main} -> Main ! {asked, self(), Asked}
    end.

work(Main, Master, Computer, Number, X, Told) ->
    receive
        next ->
            Ref = make_ref(),
            Computer ! {self(), Ref, X},
            receive {Ref, Y} -> work(Main, Master, Computer, Number, Y, Told + 2) end;
        last ->
            Master ! {found, Number, X},
            Main ! {told, self(), Told + 1}
    end.
