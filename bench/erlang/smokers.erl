%% An arbiter chooses one of so many smokers at random, and goes on when that one has begun to smoke.
%% Prints: nanoseconds, messages.
-module(smokers).
-export([main/1]).

main(Arguments) ->
    [Rounds, Count, Seed, Steps] = lists:map(fun list_to_integer/1, Arguments),
    Main = self(),
    Choices = chosen(Rounds, Count, Steps, Seed),
    Arbiter = spawn_link(fun() -> receive {smokers, Smokers} -> arbitrate(Main, Smokers, Choices, 0) end end),
    Smokers = [spawn_link(fun() -> smoke(Main, Arbiter, 0) end) || _ <- lists:seq(1, Count)],
    Arbiter ! {smokers, list_to_tuple(Smokers)},
    Start = erlang:monotonic_time(nanosecond),
    Arbiter ! begun,
    Said = receive {said, Messages} -> Messages end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Smoked = [receive {Smoker, Times} -> Times end || Smoker <- Smokers],
    Smoked = wanted(Choices, Count),
    io:format("~b ~b~n", [Elapsed, Said + lists:sum(Smoked) + Count]).

draw(X) ->
    X * 16807 rem 2147483647.

chosen(0, _, _, _) ->
    [];
chosen(Rounds, Count, Steps, X) ->
    Who = draw(X),
    Long = draw(Who),
    [{Who rem Count + 1, Long rem Steps + 1} | chosen(Rounds - 1, Count, Steps, Long)].

wanted(Choices, Count) ->
    Add = fun({Who, _}, Times) -> setelement(Who, Times, element(Who, Times) + 1) end,
    tuple_to_list(lists:foldl(Add, erlang:make_tuple(Count, 0), Choices)).

arbitrate(Main, Smokers, [{Who, Steps} | Rest], Said) ->
    receive begun -> element(Who, Smokers) ! {smoke, Steps}, arbitrate(Main, Smokers, Rest, Said + 1) end;
arbitrate(Main, Smokers, [], Said) ->
    receive begun -> [Smoker ! home || Smoker <- tuple_to_list(Smokers)] end,
    [receive gone -> ok end || _ <- tuple_to_list(Smokers)],
    Main ! {said, Said + 1 + tuple_size(Smokers)}.

smoke(Main, Arbiter, Times) ->
    receive
        {smoke, Steps} ->
            Arbiter ! begun,
            work(Steps, 1),
            smoke(Main, Arbiter, Times + 1);
        home ->
            Arbiter ! gone,
            Main ! {self(), Times}
    end.

work(0, X) ->
    X;
work(Steps, X) ->
    work(Steps - 1, draw(X)).
