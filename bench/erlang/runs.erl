%% Runs modules of the benchmark, one run for each line of the input: the module's name and its arguments. What a module prints is followed
%% by a line `end`, and one such line says that it has begun. The machine stays the same, so it is as warm for the second run as any process of Python is for its own.
-module(runs).
-export([main/0]).

main() ->
    io:format("end~n"),
    case io:get_line("") of
        eof ->
            halt(0);
        Line ->
            [Module | Rest] = string:lexemes(Line, " \n"),
            run(list_to_atom(Module), Rest),
            main()
    end.

%% A run has a process of its own, with a fresh heap and mailbox; whoever is linked to it ends with it.
run(Module, Arguments) ->
    Before = erlang:system_info(process_count),
    {Runner, Monitor} = spawn_monitor(fun() -> Module:main(Arguments), exit(done) end),
    receive
        {'DOWN', Monitor, process, Runner, done} -> ok;
        {'DOWN', Monitor, process, Runner, Reason} -> failed(Reason)
    end,
    settle(Before, 5000).

%% What one run has left behind would be in the next one's figure.
settle(Before, Patience) ->
    case erlang:system_info(process_count) of
        Count when Count =< Before -> ok;
        Count when Patience =:= 0 -> failed({left_behind, Count - Before});
        _ -> timer:sleep(1), settle(Before, Patience - 1)
    end.

failed(Reason) ->
    io:format("failed ~0p~n", [Reason]),
    halt(1).
