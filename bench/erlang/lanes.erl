%% A process that is flooded with data: before each message it empties its mailbox, handles what is urgent at once, and keeps the rest in
%% their order. So it never looks twice at what waits, as it would if it searched its mailbox for an urgent one.
%% Prints: urgent messages if no message was lost, else none; and the nanoseconds of each from send to handling.
-module(lanes).
-export([main/1]).

main([Size, Burst, Waiting]) ->
    N = list_to_integer(Size),
    B = list_to_integer(Burst),
    W = list_to_integer(Waiting),
    Main = self(),
    Target = spawn_link(fun() -> receive {flooder, Flooder} -> drink(Main, Flooder, B, [], [], 0, 0, []) end end),
    Flooder = spawn_link(fun() -> pour(Main, Target, N, B, 0, W - B) end),
    Target ! {flooder, Flooder},
    data(W - B, Target),
    Flooder ! {more, 0},
    Poured = receive {poured, P} -> P end,
    {Drunk, Times} = receive {drunk, D, T} -> {D, T} end,
    Handled = case Drunk of
        Poured -> length(Times);
        _ -> 0
    end,
    io:format("~b~n", [Handled]),
    lists:foreach(fun(Time) -> io:format("~b~n", [Time]) end, Times).

pour(Main, Target, N, B, Urgent, Poured) ->
    receive
        {more, N} -> Target ! done, Main ! {poured, Poured};
        {more, Urgent} ->
            Place = (Urgent + 1) * 37 rem B,
            data(Place, Target),
            Target ! {urgent, erlang:monotonic_time(nanosecond)},
            data(B - Place, Target),
            pour(Main, Target, N, B, Urgent + 1, Poured + B);
        {more, _} ->
            data(B, Target),
            pour(Main, Target, N, B, Urgent, Poured + B)
    end.

data(0, _) ->
    ok;
data(Left, Target) ->
    Target ! data,
    data(Left - 1, Target).

%% What waits are two lists: the first of them in order, the last ones the other way round.
drink(Main, Flooder, B, First, Last, Drunk, Handled, Times) ->
    receive
        {urgent, Sent} ->
            Time = erlang:monotonic_time(nanosecond) - Sent,
            drink(Main, Flooder, B, First, Last, Drunk, Handled + 1, [Time | Times]);
        Message ->
            drink(Main, Flooder, B, First, [Message | Last], Drunk, Handled, Times)
    after 0 ->
        next(Main, Flooder, B, First, Last, Drunk, Handled, Times)
    end.

next(Main, Flooder, B, [data | First], Last, Drunk, Handled, Times) ->
    case (Drunk + 1) rem B of
        0 -> Flooder ! {more, Handled}, erlang:yield();
        _ -> ok
    end,
    drink(Main, Flooder, B, First, Last, Drunk + 1, Handled, Times);
next(Main, _, _, [done | _], _, Drunk, _, Times) ->
    Main ! {drunk, Drunk, Times};
next(Main, Flooder, B, [], [], Drunk, Handled, Times) ->
    receive
        {urgent, Sent} ->
            Time = erlang:monotonic_time(nanosecond) - Sent,
            drink(Main, Flooder, B, [], [], Drunk, Handled + 1, [Time | Times]);
        Message ->
            drink(Main, Flooder, B, [Message], [], Drunk, Handled, Times)
    end;
next(Main, Flooder, B, [], Last, Drunk, Handled, Times) ->
    next(Main, Flooder, B, lists:reverse(Last), [], Drunk, Handled, Times).
