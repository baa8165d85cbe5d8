%% Processes that wait for a message, or for another after so many: what one of them takes.
%% Prints: bytes in all, processes that live and have handled their messages.
-module(memory).
-export([main/1, live/1]).

main([Size, Messages, Page]) ->
    N = list_to_integer(Size),
    M = list_to_integer(Messages),
    P = list_to_integer(Page),
    Total = counters:new(1, []),
    Before = resident(P),
    Processes = [spawn(?MODULE, live, [Total]) || _ <- lists:seq(1, N)],
    [Process ! 1 || _ <- lists:seq(1, M), Process <- Processes],
    settle(Total, N * M),
    erlang:garbage_collect(),
    Grown = resident(P) - Before,
    Alive = length([Process || Process <- Processes, is_process_alive(Process)]),
    %% Not linked, since a link takes memory too: so nobody ends them but we.
    [exit(Process, kill) || Process <- Processes],
    io:format("~b ~b~n", [max(0, Grown), Alive]).

%% Those that were made have had a turn, too, when this has had one behind them all.
settle(Total, Sent) ->
    erlang:yield(),
    case counters:get(Total, 1) of
        Sent -> ok;
        _ -> settle(Total, Sent)
    end.

live(Total) ->
    receive One -> counters:add(Total, 1, One), live(Total) end.

%% Where the system does not say, what the emulator has allocated.
resident(Page) ->
    erlang:garbage_collect(),
    case file:read_file("/proc/self/statm") of
        {ok, Text} -> binary_to_integer(lists:nth(2, binary:split(Text, <<" ">>, [global]))) * Page;
        {error, _} -> erlang:memory(total)
    end.
