%% Creatures meet two by two, through one mall, so many times.
%% Prints: nanoseconds, messages that the mall and the creatures have handled.
-module(chameneos).
-export([main/1]).

main([Size, Number]) ->
    Meetings = list_to_integer(Size),
    N = list_to_integer(Number),
    Main = self(),
    Mall = spawn_link(fun() -> mall(Main, N, Meetings, none, 0, 0) end),
    Creatures = [{I rem 3, spawn_link(fun() -> creature(Mall, I rem 3, 0) end)} || I <- lists:seq(0, N - 1)],
    Start = erlang:monotonic_time(nanosecond),
    lists:foreach(fun({Colour, Creature}) -> Mall ! {come, Colour, Creature} end, Creatures),
    receive {closed, AtMall, Met} -> ok end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Met = 2 * Meetings,
    io:format("~b ~b~n", [Elapsed, AtMall + Met + N]).

%% How many creatures are left, how many meetings, who waits, what has been handled, how often creatures say they met.
mall(Main, 0, _, _, AtMall, Met) ->
    Main ! {closed, AtMall, Met};
mall(Main, N, Left, Waiting, AtMall, Met) ->
    receive
        {come, _, Who} when Left =:= 0 ->
            Who ! fade,
            mall(Main, N, Left, Waiting, AtMall + 1, Met);
        {come, _, Who} when Waiting =:= none ->
            mall(Main, N, Left, Who, AtMall + 1, Met);
        {come, Colour, Who} ->
            Waiting ! {meet, Colour, Who},
            mall(Main, N, Left - 1, none, AtMall + 1, Met);
        {go, Meetings} ->
            mall(Main, N - 1, Left, Waiting, AtMall + 1, Met + Meetings)
    end.

creature(Mall, Mine, Meetings) ->
    receive
        {meet, Colour, Other} ->
            New = complement(Mine, Colour),
            Other ! {change, New},
            Mall ! {come, New, self()},
            creature(Mall, New, Meetings + 1);
        {change, Colour} ->
            Mall ! {come, Colour, self()},
            creature(Mall, Colour, Meetings + 1);
        fade ->
            Mall ! {go, Meetings}
    end.

complement(Colour, Colour) -> Colour;
complement(Mine, Other) -> 3 - Mine - Other.
