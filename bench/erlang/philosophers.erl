%% So many philosophers ask one arbitrator for two forks each; who is denied asks again.
%% Prints: nanoseconds, meals, denials.
-module(philosophers).
-export([main/1]).

main([Size, Philosophers]) ->
    N = list_to_integer(Size),
    P = list_to_integer(Philosophers),
    Rounds = N div P,
    Main = self(),
    Arbitrator = spawn_link(fun() -> arbitrate(Main, 0, 0, P) end),
    Table = [spawn_link(fun() -> live(Main, Arbitrator, forks(Number, P), Rounds, 0, 0) end)
             || Number <- lists:seq(0, P - 1)],
    Start = erlang:monotonic_time(nanosecond),
    lists:foreach(fun(Philosopher) -> Philosopher ! start end, Table),
    Asked = receive {asked, Count, 0} -> Count end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Counts = [receive {Who, Ate, Was} -> {Ate, Was} end || Who <- Table],
    Rounds = lists:min([Ate || {Ate, _} <- Counts]),
    Meals = lists:sum([Ate || {Ate, _} <- Counts]),
    Denials = lists:sum([Was || {_, Was} <- Counts]),
    Asked = Meals + Denials,
    io:format("~b ~b denials ~b~n", [Elapsed, Meals, Denials]).

%% Two bits of a number.
forks(Number, P) ->
    (1 bsl Number) bor (1 bsl ((Number + 1) rem P)).

arbitrate(Main, Taken, Asked, 0) ->
    Main ! {asked, Asked, Taken};
arbitrate(Main, Taken, Asked, Left) ->
    receive
        {hungry, Who, Forks} when Taken band Forks =:= 0 ->
            Who ! eat,
            arbitrate(Main, Taken bor Forks, Asked + 1, Left);
        {hungry, Who, _} ->
            Who ! denied,
            arbitrate(Main, Taken, Asked + 1, Left);
        {done, Forks} ->
            arbitrate(Main, Taken bxor Forks, Asked, Left);
        leave ->
            arbitrate(Main, Taken, Asked, Left - 1)
    end.

live(Main, Arbitrator, Forks, Rounds, Meals, Denials) ->
    receive
        start ->
            Arbitrator ! {hungry, self(), Forks},
            live(Main, Arbitrator, Forks, Rounds, Meals, Denials);
        denied ->
            Arbitrator ! {hungry, self(), Forks},
            live(Main, Arbitrator, Forks, Rounds, Meals, Denials + 1);
        eat when Meals + 1 =:= Rounds ->
            Arbitrator ! {done, Forks},
            Arbitrator ! leave,
            Main ! {self(), Rounds, Denials};
        eat ->
            Arbitrator ! {done, Forks},
            self() ! start,
            live(Main, Arbitrator, Forks, Rounds, Meals + 1, Denials)
    end.
