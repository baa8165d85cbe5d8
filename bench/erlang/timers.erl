%% Timers set and cancelled, in chunks, while so many others are pending that never fire.
%% Prints: nanoseconds, timers that were cancelled before they fired.
-module(timers).
-export([main/1]).

main([Size, Chunk, Pending]) ->
    N = list_to_integer(Size),
    C = list_to_integer(Chunk),
    P = list_to_integer(Pending),
    Delays = [I * 7919 rem 5000 + 1 || I <- lists:seq(0, C - 1)],
    pending(P),
    erlang:garbage_collect(),
    Start = erlang:monotonic_time(nanosecond),
    Cancelled = chunks(N div C, Delays, 0),
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    %% What fired would be here.
    {message_queue_len, 0} = process_info(self(), message_queue_len),
    io:format("~b ~b~n", [Elapsed, Cancelled]).

pending(0) ->
    ok;
pending(Left) ->
    erlang:send_after(10000 + (Left - 1) * 104729 rem 60000, self(), fired),
    pending(Left - 1).

chunks(0, _, Cancelled) ->
    Cancelled;
chunks(Chunks, Delays, Cancelled) ->
    More = churn(Delays, Cancelled),
    erlang:yield(),
    chunks(Chunks - 1, Delays, More).

churn([], Cancelled) ->
    Cancelled;
churn([Delay | Delays], Cancelled) ->
    Timer = erlang:send_after(Delay, self(), fired),
    case erlang:cancel_timer(Timer) of
        Left when is_integer(Left) -> churn(Delays, Cancelled + 1);
        false -> churn(Delays, Cancelled)
    end.
