%% A tree of processes, so many children each; the leaves' numbers are summed up on the way back.
%% Prints: nanoseconds, processes; none if the sum is wrong.
-module(skynet).
-export([main/1]).

main([Size, Children]) ->
    Leaves = list_to_integer(Size),
    C = list_to_integer(Children),
    Main = self(),
    Ended = counters:new(1, []),
    Start = erlang:monotonic_time(nanosecond),
    make(Leaves, C, Ended) ! {Main, 0},
    receive Total -> ok end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Actors = case Total of
        Sum when Sum =:= Leaves * (Leaves - 1) div 2 -> counters:get(Ended, 1);
        _ -> 0
    end,
    io:format("~b ~b~n", [Elapsed, Actors]).

make(1, _, Ended) ->
    spawn(fun() -> receive {Parent, Number} -> counters:add(Ended, 1, 1), Parent ! Number end end);
make(Size, C, Ended) ->
    spawn(fun() -> receive {Parent, Number} -> member(Parent, Number, Size div C, C, Ended) end end).

member(Parent, Number, Share, C, Ended) ->
    children(C, Number, Share, C, Ended),
    Total = add(C, 0),
    counters:add(Ended, 1, 1),
    Parent ! Total.

children(0, _, _, _, _) ->
    ok;
children(Left, Number, Share, C, Ended) ->
    make(Share, C, Ended) ! {self(), Number},
    children(Left - 1, Number + Share, Share, C, Ended).

add(0, Total) ->
    Total;
add(Left, Total) ->
    receive Number -> add(Left - 1, Total + Number) end.
