%% A tree of processes, each made by its parent, who waits for two answers.
%% Prints: nanoseconds, processes that have answered.
-module(fibonacci).
-export([main/1]).

main([Number, Right]) ->
    N = list_to_integer(Number),
    Expected = list_to_integer(Right),
    Lives = counters:new(1, []),
    Main = self(),
    Root = spawn(fun() -> find(Main, Lives) end),
    Start = erlang:monotonic_time(nanosecond),
    Root ! N,
    receive Answer -> ok end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Expected = Answer,
    io:format("~b ~b~n", [Elapsed, counters:get(Lives, 1)]).

find(Parent, Lives) ->
    receive
        N when N > 2 ->
            Me = self(),
            spawn(fun() -> find(Me, Lives) end) ! N - 1,
            spawn(fun() -> find(Me, Lives) end) ! N - 2,
            receive First -> ok end,
            receive Second -> ok end,
            counters:add(Lives, 1, 1),
            Parent ! First + Second;
        _ ->
            counters:add(Lives, 1, 1),
            Parent ! 1
    end.
