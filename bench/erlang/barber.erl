%% A factory makes customers, a room with so many chairs keeps them or turns them away, and one barber cuts their hair.
%% Prints: nanoseconds, haircuts, how many were turned away, how often the barber slept.
-module(barber).
-export([main/1]).

-record(factory, {main, room, counts, customers, making,
                  made = 0, inside = 0, finished = 0, outside = [], messages = 0, returned = 0}).
-record(room, {main, barber, chairs, waiting = queue:new(), seated = 0,
               is_asleep = true, is_closed = false, messages = 0}).

main(Arguments) ->
    [N, PerChair, Seed, Steps] = lists:map(fun list_to_integer/1, Arguments),
    Main = self(),
    {Making, Cutting} = times(N, Steps, Seed),
    Cuts = counters:new(N, []),
    Told = counters:new(1, []),
    Barber = spawn_link(fun() -> cut(Main, Cutting, 0, 0) end),
    Room = spawn_link(fun() -> serve(#room{main = Main, barber = Barber, chairs = N div PerChair}) end),
    Made = #factory{main = Main, room = Room, counts = {Cuts, Told}, customers = N, making = Making},
    Factory = spawn_link(fun() -> make(Made) end),
    Start = erlang:monotonic_time(nanosecond),
    Factory ! make,
    {ToBarber, Slept} = receive {barber, A, B} -> {A, B} end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    {ToFactory, Returned} = receive {factory, C, D} -> {C, D} end,
    ToRoom = receive {room, E} -> E end,
    Each = [counters:get(Cuts, Number) || Number <- lists:seq(1, N)],
    1 = lists:max(Each),
    Messages = ToBarber + ToFactory + ToRoom + counters:get(Told, 1),
    Messages = 8 * N + Slept + 3 * Returned + 2,
    io:format("~b ~b turned_away ~b slept ~b~n", [Elapsed, lists:sum(Each), Returned, Slept]).

draw(X) ->
    X * 16807 rem 2147483647.

times(0, _, _) ->
    {[], []};
times(Left, Steps, X) ->
    A = draw(X),
    B = draw(A),
    {Making, Cutting} = times(Left - 1, Steps, B),
    {[1 + A rem Steps | Making], [1 + B rem Steps | Cutting]}.

work(0, X) ->
    X;
work(Steps, X) ->
    work(Steps - 1, draw(X)).

%% Who of those outside comes first does not matter: a list will do. A record is copied once for each message, with all that has changed.
make(#factory{finished = N, customers = N} = Factory) ->
    Factory#factory.room ! close,
    Factory#factory.main ! {factory, Factory#factory.messages, Factory#factory.returned};
make(#factory{room = Room, inside = Inside, outside = Outside, messages = Messages} = Factory) ->
    receive
        make ->
            #factory{made = Made, counts = Counts, making = [Steps | Rest]} = Factory,
            Me = self(),
            Room ! {enter, spawn_link(fun() -> live(Me, Counts, Made + 1) end)},
            work(Steps, 1),
            Rest =/= [] andalso (Me ! make),
            make(Factory#factory{made = Made + 1, making = Rest, inside = Inside + 1, messages = Messages + 1});
        {returned, Who} when Inside =:= 1 ->
            Room ! {enter, Who},
            make(Factory#factory{returned = Factory#factory.returned + 1, messages = Messages + 1});
        {returned, Who} ->
            make(Factory#factory{returned = Factory#factory.returned + 1, inside = Inside - 1, outside = [Who | Outside],
                                 messages = Messages + 1});
        finished when Outside =:= [] ->
            make(Factory#factory{finished = Factory#factory.finished + 1, inside = Inside - 1, messages = Messages + 1});
        finished ->
            Room ! {enter, hd(Outside)},
            make(Factory#factory{finished = Factory#factory.finished + 1, outside = tl(Outside), messages = Messages + 1})
    end.

%% Waiting is a queue and its length.
serve(#room{is_closed = true, is_asleep = true} = Room) ->
    Room#room.barber ! home,
    Room#room.main ! {room, Room#room.messages};
serve(#room{chairs = Chairs, waiting = Waiting, seated = Seated, messages = Messages} = Room) ->
    receive
        {enter, Who} when Seated =:= Chairs ->
            Who ! full,
            serve(Room#room{messages = Messages + 1});
        {enter, Who} when Room#room.is_asleep ->
            self() ! next,
            serve(Room#room{waiting = queue:in(Who, Waiting), seated = Seated + 1, is_asleep = false, messages = Messages + 1});
        {enter, Who} ->
            Who ! wait,
            serve(Room#room{waiting = queue:in(Who, Waiting), seated = Seated + 1, messages = Messages + 1});
        next when Seated =:= 0 ->
            Room#room.barber ! sleep,
            serve(Room#room{is_asleep = true, messages = Messages + 1});
        next ->
            {{value, Who}, Rest} = queue:out(Waiting),
            Room#room.barber ! {cut, Who, self()},
            serve(Room#room{waiting = Rest, seated = Seated - 1, messages = Messages + 1});
        close ->
            serve(Room#room{is_closed = true, messages = Messages + 1})
    end.

cut(Main, Cutting, Messages, Slept) ->
    receive
        {cut, Who, Room} ->
            Who ! 'begin',
            work(hd(Cutting), 1),
            Who ! done,
            Room ! next,
            cut(Main, tl(Cutting), Messages + 1, Slept);
        sleep ->
            cut(Main, Cutting, Messages + 1, Slept + 1);
        home ->
            Main ! {barber, Messages + 1, Slept}
    end.

live(Factory, {Cuts, Told} = Counts, Number) ->
    receive
        full ->
            Factory ! {returned, self()},
            counters:add(Told, 1, 1),
            live(Factory, Counts, Number);
        done ->
            counters:add(Cuts, Number, 1),
            counters:add(Told, 1, 1),
            Factory ! finished;
        _ ->
            counters:add(Told, 1, 1),
            live(Factory, Counts, Number)
    end.
