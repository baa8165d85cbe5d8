%% A gen_server that adds up what is cast to it, in bursts, each closed by a call for the sum.
%% Prints: nanoseconds, casts that were added up.
-module(tell).
-behaviour(gen_server).
-export([main/1, init/1, handle_call/3, handle_cast/2]).

main([Size, Burst]) ->
    N = list_to_integer(Size),
    B = list_to_integer(Burst),
    {ok, Adder} = gen_server:start_link(?MODULE, [], []),
    Start = erlang:monotonic_time(nanosecond),
    bursts(N div B, B, Adder),
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    io:format("~b ~b~n", [Elapsed, gen_server:call(Adder, value)]).

bursts(0, _, _) ->
    ok;
bursts(Bursts, B, Adder) ->
    cast(B, Adder),
    gen_server:call(Adder, value),
    bursts(Bursts - 1, B, Adder).

cast(0, _) ->
    ok;
cast(Left, Adder) ->
    gen_server:cast(Adder, 1),
    cast(Left - 1, Adder).

init([]) ->
    {ok, 0}.

handle_call(value, _From, Total) ->
    {reply, Total, Total}.

handle_cast(One, Total) ->
    {noreply, Total + One}.
