%% A small server inside the broker that answers, on a unix socket, what this node itself holds to be true of each
%% quorum queue. A command-line call costs half a second of a core; a question here costs microseconds, so it can be
%% asked several times a second. A paused or killed broker does not answer, which is the truth.
%%
%% Role and term come out of one state of the Ra process (sys:get_status), not from the ra_state table and the
%% counters, which are written at different moments: read side by side they can show a leader deposed a moment ago
%% with the term of its successor, that is two leaders in one term that never were.
%%
%% Stamps are os:perf_counter, which on Linux is CLOCK_MONOTONIC: the clock of the node's agent.
-module(splitbrain_reporter).
-export([boot/0]).

-define(TIMEOUT, 1000).

%% RABBITMQ_BOOT_MODULE: runs in place of rabbit:boot/0, so that the reporter answers while the node boots, too.
boot() ->
    case os:getenv("SPLITBRAIN_REPORTER") of
        false -> ok;
        Path -> spawn(fun() -> listen(Path) end)
    end,
    rabbit:boot().

listen(Path) ->
    _ = file:delete(Path),
    {ok, Socket} = gen_tcp:listen(0, [{ifaddr, {local, Path}}, binary, {packet, line}, {active, false}]),
    accept(Socket).

accept(Listening) ->
    {ok, Socket} = gen_tcp:accept(Listening),
    Pid = spawn(fun() -> receive go -> serve(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listening).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            ok = gen_tcp:send(Socket, [answer(string:trim(Line)), $\n]),
            serve(Socket);
        {error, _} ->
            gen_tcp:close(Socket)
    end.

answer(<<"views">>) ->
    object([{pid, os:getpid()}, {views, {list, [object(Q) || Status <- ask_all(ra_servers()), Q <- queue(Status)]}}]);
answer(<<"cluster">>) ->
    object([{pid, os:getpid()}, {running, {list, [text(Node) || Node <- running()]}}]);
answer(<<"clock">>) ->
    object([{pid, os:getpid()}, {os, os:system_time(nanosecond)}, {erlang, erlang:system_time(nanosecond)},
            {at, os:perf_counter(nanosecond)}]);
answer(Other) ->
    object([{error, <<"unknown question: ", Other/binary>>}]).

%% The function's name changed between 3.10 and 4.0. While the node boots there may be no answer yet.
running() ->
    _ = code:ensure_loaded(rabbit_nodes),
    Name = case erlang:function_exported(rabbit_nodes, list_running, 0) of true -> list_running; false -> all_running end,
    try rabbit_nodes:Name() catch _:_ -> [] end.

ra_servers() ->
    case ets:info(ra_state, size) of
        undefined -> [];
        %% rabbitmq_metadata is the metadata store of 4.x, not a queue.
        _ -> [Name || Row <- ets:tab2list(ra_state), (Name = element(1, Row)) =/= rabbitmq_metadata]
    end.

%% Side by side, so that one that hangs in a disk write does not hold up the others.
ask_all(Names) ->
    Refs = [begin
                {_, Ref} = spawn_monitor(fun() -> exit({seen, ask(Name)}) end),
                Ref
            end || Name <- Names],
    lists:append([receive {'DOWN', Ref, process, _, {seen, Seen}} -> [Seen];
                          {'DOWN', Ref, process, _, _} -> []
                  end || Ref <- Refs]).

ask(Name) ->
    Asked = os:perf_counter(nanosecond),
    {status, _, _, Items} = sys:get_status(Name, ?TIMEOUT),
    Answered = os:perf_counter(nanosecond),
    Status = lists:last(Items),
    {Asked, Answered, proplists:get_value(raft_state, Status), proplists:get_value(ra_server_state, Status)}.

%% Only quorum queues: the Ra servers of streams and of others have another machine, or none yet while they recover.
queue({Asked, Answered, Role, #{current_term := Term, commit_index := Commit, last_applied := Applied,
                                cluster := Cluster,
                                machine := #{config := #{resource := {resource, _, queue, Queue}},
                                             num_messages := Messages, num_ready_messages := Ready,
                                             num_checked_out := CheckedOut}} = State}) ->
    [[{scope, Queue}, {role, Role}, {term, Term}, {commit, Commit}, {applied, Applied},
     {leader, node_of(maps:get(leader_id, State, undefined))},
     {members, {list, [text(node_of(Id)) || Id <- maps:keys(Cluster)]}},
     {messages, Messages}, {ready, Ready}, {unacked, CheckedOut}, {asked, Asked}, {answered, Answered}]];
queue(_) ->
    [].

node_of({_, Node}) -> atom_to_binary(Node, utf8);
node_of(_) -> <<>>.

%% JSON, as much of it as is needed: the broker's own encoders differ from version to version.
object(Pairs) ->
    [${, lists:join($,, [[$", atom_to_binary(K, utf8), $", $:, text(V)] || {K, V} <- Pairs]), $}].

text({list, Items}) -> [$[, lists:join($,, Items), $]];
text(N) when is_integer(N) -> integer_to_binary(N);
text(A) when is_atom(A) -> text(atom_to_binary(A, utf8));
text(S) when is_list(S) -> text(list_to_binary(S));
text(B) when is_binary(B) -> [$", [escape(C) || <<C>> <= B], $"].

escape($") -> "\\\"";
escape($\\) -> "\\\\";
escape(C) when C < 32 -> io_lib:format("\\u~4.16.0b", [C]);
escape(C) -> C.
