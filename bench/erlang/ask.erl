%% A gen_server that adds up what it is sent and answers with the sum so far; asked one by one, or so many at a time.
%% Prints: nanoseconds, asks that were answered with the right sums.
-module(ask).
-behaviour(gen_server).
-export([main/1, init/1, handle_call/3, handle_cast/2]).

main([Size, Window]) ->
    N = list_to_integer(Size),
    W = list_to_integer(Window),
    {ok, Adder} = gen_server:start_link(?MODULE, [], []),
    Start = erlang:monotonic_time(nanosecond),
    Answers = case W of
        1 -> sequential(N, Adder, 0);
        _ -> pipelined(N div W, W, Adder, 0)
    end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Handled = case Answers of
        Sum when Sum =:= N * (N + 1) div 2 -> gen_server:call(Adder, 0);
        _ -> 0
    end,
    io:format("~b ~b~n", [Elapsed, Handled]).

sequential(0, _, Answers) ->
    Answers;
sequential(N, Adder, Answers) ->
    sequential(N - 1, Adder, Answers + gen_server:call(Adder, 1)).

pipelined(0, _, _, Answers) ->
    Answers;
pipelined(Rounds, W, Adder, Answers) ->
    Requests = [gen_server:send_request(Adder, 1) || _ <- lists:seq(1, W)],
    pipelined(Rounds - 1, W, Adder, collect(Requests, Answers)).

collect([], Answers) ->
    Answers;
collect([Request | Requests], Answers) ->
    {reply, Answer} = gen_server:receive_response(Request, infinity),
    collect(Requests, Answers + Answer).

init([]) ->
    {ok, 0}.

handle_call(One, _From, Total) ->
    {reply, Total + One, Total + One}.

handle_cast(_, Total) ->
    {noreply, Total}.
