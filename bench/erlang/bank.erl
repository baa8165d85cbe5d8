%% A teller has transactions made between accounts, each waiting for the answer of the one it sends money to.
%% Prints: nanoseconds, messages, all the money, and who has it as a sum.
-module(bank).
-export([main/1]).

main(Arguments) ->
    [N, Count, Senders, Seed, Most, Balance] = lists:map(fun list_to_integer/1, Arguments),
    Main = self(),
    Transactions = drawn(N, Count, Senders, Most, Seed),
    Teller = spawn_link(fun() -> tell(Main, Transactions) end),
    Accounts = [spawn_link(fun() -> serve(Main, Teller, Balance, 0) end) || _ <- lists:seq(1, Count)],
    Teller ! {accounts, list_to_tuple(Accounts)},
    Start = erlang:monotonic_time(nanosecond),
    Teller ! start,
    Done = receive {done, All} -> All end,
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    lists:foreach(fun(Account) -> Account ! stop end, Accounts),
    Ends = [receive {Account, Has, Told} -> {Has, Told} end || Account <- Accounts],
    Money = lists:sum([Has || {Has, _} <- Ends]),
    Sum = lists:sum([Number * Has || {Number, {Has, _}} <- lists:zip(lists:seq(1, Count), Ends)]),
    Messages = 1 + Done + lists:sum([Told || {_, Told} <- Ends]),
    io:format("~b ~b money ~b checksum ~b~n", [Elapsed, Messages, Money, Sum]).

draw(X) ->
    X * 16807 rem 2147483647.

%% Elements of a tuple are counted from 1.
drawn(0, _, _, _, _) ->
    [];
drawn(Left, Count, Senders, Most, X) ->
    A = draw(X),
    B = draw(A),
    C = draw(B),
    Sender = A rem Senders,
    Recipient = Sender + 1 + B rem (Count - Sender - 1),
    [{Sender + 1, Recipient + 1, 1 + C rem Most} | drawn(Left - 1, Count, Senders, Most, C)].

tell(Main, Transactions) ->
    receive {accounts, Accounts} -> receive start -> ok end end,
    lists:foreach(
        fun({Sender, Recipient, Amount}) ->
            element(Sender, Accounts) ! {transfer, Amount, element(Recipient, Accounts)}
        end,
        Transactions),
    Main ! {done, length([receive done -> ok end || _ <- Transactions])}.

serve(Main, Teller, Balance, Told) ->
    receive
        {transfer, Amount, Recipient} ->
            Ref = make_ref(),
            Recipient ! {deposit, Amount, self(), Ref},
            receive Ref -> Teller ! done end,
            serve(Main, Teller, Balance - Amount, Told + 2);
        {deposit, Amount, Sender, Ref} ->
            Sender ! Ref,
            serve(Main, Teller, Balance + Amount, Told + 1);
        stop ->
            Main ! {self(), Balance, Told}
    end.
