%% A supervisor of OTP whose children all fail at once, and are started again, so many times; then another takes its place.
%% Prints: nanoseconds, restarts.
-module(storm).
-behaviour(supervisor).
-export([main/1, init/1, start_child/1, child/2]).

main([Size, Children, Storms]) ->
    N = list_to_integer(Size),
    C = list_to_integer(Children),
    S = list_to_integer(Storms),
    %% Reports of crashes and restarts go nowhere, as in the other systems.
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    {Elapsed, Restarts} = supervisors(N div (C * S), C, S, 0, 0),
    io:format("~b ~b~n", [Elapsed, Restarts]).

supervisors(0, _, _, Elapsed, Restarts) ->
    {Elapsed, Restarts};
supervisors(Left, C, S, Elapsed, Restarts) ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, [self()]),
    [{ok, _} = supervisor:start_child(Supervisor, []) || _ <- lists:seq(1, C)],
    Living = up(C, []),
    Start = erlang:monotonic_time(nanosecond),
    Again = storms(S, C, Living, 0),
    More = erlang:monotonic_time(nanosecond) - Start,
    exit(Supervisor, shutdown),
    receive {'EXIT', Supervisor, _} -> ok end,
    supervisors(Left - 1, C, S, Elapsed + More, Restarts + Again).

storms(0, _, _, Restarts) ->
    Restarts;
storms(Left, C, Living, Restarts) ->
    lists:foreach(fun(Child) -> Child ! crash end, Living),
    Back = up(C, []),
    storms(Left - 1, C, Back, Restarts + length(Back)).

up(0, Living) ->
    Living;
up(Left, Living) ->
    receive {up, Child} -> up(Left - 1, [Child | Living]) end.

%% Children of one shape: those it finds by their pids, where it would search a list of others at every end.
init([Main]) ->
    Child = #{id => child, start => {?MODULE, start_child, [Main]}},
    {ok, {#{strategy => simple_one_for_one, intensity => 1000000000, period => 1}, [Child]}}.

start_child(Main) ->
    proc_lib:start_link(?MODULE, child, [self(), Main]).

child(Parent, Main) ->
    proc_lib:init_ack(Parent, {ok, self()}),
    Main ! {up, self()},
    receive crash -> exit(failed) end.
