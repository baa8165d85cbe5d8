%% A supervisor of OTP with one child, which fails as soon as it has started, until it has failed often enough.
%% Prints: nanoseconds, restarts.
-module(restart).
-behaviour(supervisor).
-export([main/1, init/1, start_child/2, child/3]).

main([Size, Batch]) ->
    N = list_to_integer(Size),
    B = list_to_integer(Batch),
    %% Reports of crashes and restarts go nowhere, as in the other systems.
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    Left = counters:new(1, []),
    Start = erlang:monotonic_time(nanosecond),
    Restarts = batches(N div B, B, Left, 0),
    io:format("~b ~b~n", [erlang:monotonic_time(nanosecond) - Start, Restarts]).

batches(0, _, _, Restarts) ->
    Restarts;
batches(Batches, B, Left, Restarts) ->
    counters:put(Left, 1, B),
    {ok, Supervisor} = supervisor:start_link(?MODULE, [self(), Left]),
    receive done -> ok end,
    exit(Supervisor, shutdown),
    receive {'EXIT', Supervisor, _} -> ok end,
    batches(Batches - 1, B, Left, Restarts + B).

init([Main, Left]) ->
    Child = #{id => child, start => {?MODULE, start_child, [Main, Left]}},
    {ok, {#{strategy => one_for_one, intensity => 1000000000, period => 1}, [Child]}}.

start_child(Main, Left) ->
    proc_lib:start_link(?MODULE, child, [self(), Main, Left]).

child(Parent, Main, Left) ->
    proc_lib:init_ack(Parent, {ok, self()}),
    case counters:get(Left, 1) of
        0 -> Main ! done;
        _ -> counters:sub(Left, 1, 1), self() ! crash
    end,
    receive crash -> exit(failed) end.
