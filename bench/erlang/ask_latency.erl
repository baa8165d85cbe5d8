%% A gen_server that adds up what it is sent and answers with the sum so far; every call is timed by itself.
%% Prints: calls that were answered with the right sum, and the nanoseconds of each.
-module(ask_latency).
-behaviour(gen_server).
-export([main/1, init/1, handle_call/3, handle_cast/2]).

main([Size]) ->
    N = list_to_integer(Size),
    {ok, Adder} = gen_server:start_link(?MODULE, [], []),
    {Right, Times} = ask(1, N, Adder, 0, []),
    io:format("~b~n", [Right]),
    lists:foreach(fun(Time) -> io:format("~b~n", [Time]) end, Times).

ask(Due, N, _, Right, Times) when Due > N ->
    {Right, Times};
ask(Due, N, Adder, Right, Times) ->
    Begin = erlang:monotonic_time(nanosecond),
    Answer = gen_server:call(Adder, 1),
    Time = erlang:monotonic_time(nanosecond) - Begin,
    case Answer of
        Due -> ask(Due + 1, N, Adder, Right + 1, [Time | Times]);
        _ -> ask(Due + 1, N, Adder, Right, [Time | Times])
    end.

init([]) ->
    {ok, 0}.

handle_call(One, _From, Total) ->
    {reply, Total + One, Total + One}.

handle_cast(_, Total) ->
    {noreply, Total}.
