%% Producers and consumers around one manager, who keeps no more items than there is room for.
%% Prints: nanoseconds, messages that the manager, the producers and the consumers have handled.
-module(buffer).
-export([main/1]).

main(Arguments) ->
    [Each, Producers, Consumers, Room, Cost] = lists:map(fun list_to_integer/1, Arguments),
    Main = self(),
    Manager = spawn_link(fun() -> open(Main, Producers, Consumers, Room) end),
    Users = [spawn_link(fun() -> consume(Main, Manager, Cost, []) end) || _ <- lists:seq(1, Consumers)],
    Makers = [spawn_link(fun() -> produce(Main, Manager, Cost, I * Each, (I + 1) * Each, 0) end)
              || I <- lists:seq(0, Producers - 1)],
    Manager ! {open, Users},
    Start = erlang:monotonic_time(nanosecond),
    lists:foreach(fun(Maker) -> Maker ! produce end, Makers),
    receive {managed, Managed, Most} -> ok end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Told = lists:sum([receive {told, Told} -> Told end || _ <- Makers]),
    Items = lists:sort(lists:append([receive {consumed, Consumed} -> Consumed end || _ <- Users])),
    Items = lists:seq(0, Each * Producers - 1),
    true = Most =< Room,
    io:format("~b ~b~n", [Elapsed, Managed + Told + length(Items)]).

open(Main, Producers, Consumers, Room) ->
    receive {open, Users} -> ok end,
    manage(Main, Producers, Consumers, Room - Producers, queue:from_list(Users), Consumers, queue:new(), 0, queue:new(), 0, 0).

%% How many producers are left, who is free and how many, what is kept and how many, who waits, what was handled, the most kept.
manage(Main, 0, Consumers, _, Free, Consumers, _, _, _, Managed, Most) ->
    Main ! {managed, Managed, Most},
    lists:foreach(fun(User) -> User ! stop end, queue:to_list(Free));
manage(Main, Left, Consumers, Limit, Free, N, Kept, K, Waiting, Managed, Most) ->
    receive
        {take, Who, Item} when N > 0 ->
            {{value, User}, Fewer} = queue:out(Free),
            User ! Item,
            Who ! produce,
            manage(Main, Left, Consumers, Limit, Fewer, N - 1, Kept, K, Waiting, Managed + 1, Most);
        {take, Who, Item} when K + 1 < Limit ->
            Who ! produce,
            manage(Main, Left, Consumers, Limit, Free, N, queue:in(Item, Kept), K + 1, Waiting, Managed + 1, max(Most, K + 1));
        {take, Who, Item} ->
            manage(Main, Left, Consumers, Limit, Free, N, queue:in(Item, Kept), K + 1, queue:in(Who, Waiting), Managed + 1,
                   max(Most, K + 1));
        {give, Who} when K > 0 ->
            {{value, Item}, Fewer} = queue:out(Kept),
            Who ! Item,
            case queue:out(Waiting) of
                {{value, Maker}, Others} -> Maker ! produce;
                {empty, Others} -> ok
            end,
            manage(Main, Left, Consumers, Limit, Free, N, Fewer, K - 1, Others, Managed + 1, Most);
        {give, Who} ->
            manage(Main, Left, Consumers, Limit, queue:in(Who, Free), N + 1, Kept, K, Waiting, Managed + 1, Most);
        leave ->
            manage(Main, Left - 1, Consumers, Limit, Free, N, Kept, K, Waiting, Managed + 1, Most)
    end.

produce(Main, Manager, _, End, End, Told) ->
    receive produce -> Manager ! leave end,
    Main ! {told, Told + 1};
produce(Main, Manager, Cost, Item, End, Told) ->
    receive produce -> Manager ! {take, self(), Item + work(Cost, 1)} end,
    produce(Main, Manager, Cost, Item + 1, End, Told + 1).

consume(Main, Manager, Cost, Consumed) ->
    receive
        stop ->
            Main ! {consumed, Consumed};
        Item ->
            Used = Item - work(Cost, 1),
            Manager ! {give, self()},
            consume(Main, Manager, Cost, [Used | Consumed])
    end.

work(0, X) -> X;
work(Left, X) -> work(Left - 1, X * 16807 rem 2147483647).
