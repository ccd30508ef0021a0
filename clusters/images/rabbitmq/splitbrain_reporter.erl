%% A small server inside the broker that answers, on a unix socket, what this node itself holds to be true of each
%% quorum queue, of each classic one with its mirrors, and of each stream. A command-line call costs half a second of a
%% core; a question here costs microseconds, so it can be asked several times a second. A paused or killed broker does
%% not answer, which is the truth.
%%
%% Role and term come out of one state of the Ra process (sys:get_status), not from the ra_state table and the
%% counters, which are written at different moments: read side by side they can show a leader deposed a moment ago
%% with the term of its successor, that is two leaders in one term that never were.
%%
%% Stamps are os:perf_counter, which on Linux is CLOCK_MONOTONIC: the clock of the node's agent.
-module(splitbrain_reporter).
-export([boot/0]).

-define(TIMEOUT, 1000).
-define(COUNTS, [messages_ready, messages_unacknowledged]).

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

%% Whoever asked may have gone by now, out of patience with a broker that was held up: that must not end the reporter.
accept(Listening) ->
    case gen_tcp:accept(Listening) of
        {ok, Socket} ->
            Pid = spawn(fun() -> receive go -> serve(Socket) end end),
            case gen_tcp:controlling_process(Socket, Pid) of
                ok -> Pid ! go;
                {error, _} -> exit(Pid, kill), gen_tcp:close(Socket)
            end;
        {error, _} ->
            timer:sleep(100)
    end,
    accept(Listening).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            case gen_tcp:send(Socket, [answer(string:trim(Line)), $\n]) of
                ok -> serve(Socket);
                {error, _} -> gen_tcp:close(Socket)
            end;
        {error, _} ->
            gen_tcp:close(Socket)
    end.

answer(<<"views">>) ->
    Quorum = [Q || Status <- side_by_side(fun ask/1, ra_servers()), Q <- queue(Status)],
    Classic = side_by_side(fun classic/1, classic_queues()),
    Streams = streams(side_by_side(fun ask_member/1, stream_members())),
    object([{pid, os:getpid()}, {views, {list, [object(Q) || Q <- Quorum ++ Classic ++ Streams]}}]);
answer(<<"cluster">>) ->
    object([{pid, os:getpid()}, {running, {list, [text(Node) || Node <- running()]}}]);
answer(<<"clock">>) ->
    object([{pid, os:getpid()}, {os, os:system_time(nanosecond)}, {erlang, erlang:system_time(nanosecond)},
            {at, os:perf_counter(nanosecond)}]);
answer(<<"touch">>) ->
    _ = side_by_side(fun touch/1, ra_servers()),
    object([{pid, os:getpid()}]);
answer(<<"shrink", Names/binary>>) ->
    changed(fun take_out/1, [Queue || Queue <- queues(Names), lists:member(node(), members(Queue))]);
answer(<<"grow", Names/binary>>) ->
    changed(fun take_in/1, [Queue || Queue <- queues(Names), not lists:member(node(), members(Queue))]);
answer(<<"transfer", To/binary>>) ->
    Led = [Queue || Queue <- queues(<<>>), is_led_here(Queue)],
    changed(fun({Queue, Others}) -> hand_over(Queue, Others) end,
            [{Queue, Others} || Queue <- Led, Others <- [heirs(Queue, To)], Others =/= []]);
answer(Other) ->
    object([{error, <<"unknown question: ", Other/binary>>}]).

%% The function's name changed between 3.10 and 4.0. While the node boots there may be no answer yet.
running() ->
    _ = code:ensure_loaded(rabbit_nodes),
    Name = case erlang:function_exported(rabbit_nodes, list_running, 0) of true -> list_running; false -> all_running end,
    try rabbit_nodes:Name() catch _:_ -> [] end.

%% A read that needs a majority, of each queue that is led here: it changes nothing, and tells the followers who leads.
touch(Name) ->
    case ets:lookup_element(ra_state, Name, 2) of
        leader -> ra:consistent_query({Name, node()}, fun(_) -> ok end, ?TIMEOUT);
        _ -> ok
    end.

ra_servers() ->
    case ets:info(ra_state, size) of
        undefined -> [];
        %% rabbitmq_metadata is the metadata store of 4.x, not a queue.
        _ -> [Name || Row <- ets:tab2list(ra_state), (Name = element(1, Row)) =/= rabbitmq_metadata]
    end.

%% Side by side, so that one that hangs in a disk write does not hold up the others.
side_by_side(Ask, Queues) ->
    Refs = [begin
                {_, Ref} = spawn_monitor(fun() -> exit({seen, Ask(Queue)}) end),
                Ref
            end || Queue <- Queues],
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
                                log := #{last_index := Last}, cluster := Cluster,
                                machine := #{config := #{resource := {resource, _, queue, Queue}},
                                             num_messages := Messages, num_ready_messages := Ready,
                                             num_checked_out := CheckedOut} = Machine} = State}) ->
    [[{scope, Queue}, {role, Role}, {term, Term}, {commit, Commit}, {applied, Applied}, {last, Last},
     {leader, node_of(maps:get(leader_id, State, undefined))},
     {members, {list, [text(node_of(Id)) || Id <- maps:keys(Cluster)]}},
     {messages, Messages}, {ready, Ready + dead_letters(Machine)}, {unacked, CheckedOut}, {asked, Asked},
     {answered, Answered}]];
queue(_) ->
    [].

%% What has left the queue and is not yet known to be in another: until then it is here.
dead_letters(Machine) -> maps:get(num_discarded, Machine, 0) + maps:get(num_discard_checked_out, Machine, 0).

%% This node's copy of the table of queues; none while its database is down, as under pause_minority.
classic_queues() ->
    try [Queue || Queue <- ets:tab2list(rabbit_queue), amqqueue:get_type(Queue) =:= rabbit_classic_queue]
    catch _:_ -> [] end.

%% A master never steps down: it is one until its process ends. So two answers of one reign, the master's process, say
%% that it was master in between, too. The table may name a master that is no more.
classic(Queue) ->
    Asked = os:perf_counter(nanosecond),
    {resource, _, queue, Name} = amqqueue:get_name(Queue),
    Master = amqqueue:get_pid(Queue),
    Mirrors = amqqueue:get_slave_pids(Queue),
    Synced = amqqueue:get_sync_slave_pids(Queue),
    Role = case {is_here(Master), [Pid || Pid <- Mirrors, is_here(Pid)]} of
               {true, _} -> leader;
               {false, []} -> none;
               {false, [Pid | _]} -> case lists:member(Pid, Synced) of true -> mirror; false -> unsynchronised end
           end,
    Answered = os:perf_counter(nanosecond),
    {Ready, Unacked} = case Role of leader -> counts(Queue); _ -> {0, 0} end,
    [{scope, Name}, {role, Role}, {leader, node_of({pid, Master})},
     {members, {list, [text(node(Pid)) || Pid <- [Master | Mirrors], is_pid(Pid)]}},
     {synced, {list, [text(node(Pid)) || Pid <- Synced]}},
     {ready, Ready}, {unacked, Unacked}, {asked, Asked}, {answered, Answered}]
    ++ [{reign, pid_to_list(Master)} || Role =:= leader].

is_here(Pid) -> is_pid(Pid) andalso node(Pid) =:= node() andalso is_process_alive(Pid).

%% The master's own. One that synchronises mirrors answers nobody, and one that ends has no numbers: -1 then.
counts(Queue) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({seen, [N || {_, N} <- rabbit_amqqueue:info(Queue, ?COUNTS)]}) end),
    receive
        {'DOWN', Ref, process, _, {seen, [Ready, Unacked]}} when is_integer(Ready), is_integer(Unacked) ->
            {Ready, Unacked};
        {'DOWN', Ref, process, _, _} ->
            {-1, -1}
    after ?TIMEOUT ->
        exit(Pid, kill),
        erlang:demonitor(Ref, [flush]),
        {-1, -1}
    end.

%% The writers and replicas of streams that run on this node. One that still starts answers nothing.
stream_members() ->
    try [{Pid, Module} || {_, Pid, _, [Module]} <- supervisor:which_children(osiris_server_sup), is_pid(Pid)]
    catch _:_ -> [] end.

%% Role, epoch and tail out of one state of the process, of which a writer and a replica (and each version) tell in
%% another form.
ask_member({Pid, Module}) ->
    Asked = os:perf_counter(nanosecond),
    {status, _, _, Items} = sys:get_status(Pid, ?TIMEOUT),
    Answered = os:perf_counter(nanosecond),
    #{external_reference := Reference, log := #{mode := #{tail := {Next, Last}, epoch := Epoch}}} = State = told(Items),
    Tail = case Last of empty -> -1; _ -> element(2, Last) end,
    Role = case Module of osiris_writer -> leader; _ -> replica end,
    {Reference, [{role, Role}, {term, Epoch}, {committed, maps:get(committed_offset, State, -1)}, {tail, Tail},
                 {next, Next}, {asked, Asked}, {answered, Answered}]}.

told([#{external_reference := _} = State | _]) -> State;
told([{data, [{"State", State}]} | _]) -> told([State]);
told([List | Rest]) when is_list(List) -> case told(List) of none -> told(Rest); State -> State end;
told([_ | Rest]) -> told(Rest);
told([]) -> none.

%% Each stream that this node's copy of the table of queues has: who leads it, as far as that is known here, and what
%% runs of it here, if anything does.
streams(Members) ->
    Queues = try [Queue || Queue <- ets:tab2list(rabbit_queue), amqqueue:get_type(Queue) =:= rabbit_stream_queue]
             catch _:_ -> [] end,
    [begin
         Name = {resource, _, queue, Scope} = amqqueue:get_name(Queue),
         #{nodes := Nodes} = Conf = amqqueue:get_type_state(Queue),
         Now = os:perf_counter(nanosecond),
         Here = proplists:get_value(Name, Members, [{role, stopped}, {asked, Now}, {answered, Now}]),
         [{scope, Scope}, {leader, atom_to_binary(maps:get(leader_node, Conf, ''), utf8)},
          {members, {list, [text(Node) || Node <- Nodes]}} | Here]
     end || Queue <- Queues].

%% What an operator asks for, of each queue by itself: what came of it, and with which queues; and why not, with others.
%% None of it is done twice at a time: each change to a group is to be committed before the next.
changed(Change, Queues) ->
    Done = [{name(Queue), try Change(Queue) catch _:Why -> {error, Why} end} || Queue <- Queues],
    object([{pid, os:getpid()},
            {done, {list, [said([Name, <<": ">>, What]) || {Name, {ok, What}} <- Done]}},
            {queues, {list, [text(Name) || {Name, {ok, _}} <- Done]}},
            {failed, {list, [said([Name, <<": ">>, io_lib:format("~0p", [Why])]) || {Name, {error, Why}} <- Done]}}]).

said(Words) -> text(iolist_to_binary(Words)).

name({Queue, _}) -> name(Queue);
name(Queue) -> {resource, _, queue, Name} = amqqueue:get_name(Queue), Name.

vhost(Queue) -> {resource, VHost, queue, _} = amqqueue:get_name(Queue), VHost.

%% All, or those that are named, each after a tab; by their records in the database.
queues(<<>>) -> [Queue || Queue <- rabbit_amqqueue:list(), is_replicated(Queue)];
queues(Names) ->
    Wanted = binary:split(Names, <<"\t">>, [global, trim_all]),
    [Queue || Queue <- queues(<<>>), lists:member(name(Queue), Wanted)].

is_replicated(Queue) ->
    lists:member(amqqueue:get_type(Queue), [rabbit_quorum_queue, rabbit_stream_queue, rabbit_classic_queue]).

members(Queue) ->
    case amqqueue:get_type(Queue) of
        rabbit_classic_queue -> [node(Pid) || Pid <- [amqqueue:get_pid(Queue) | amqqueue:get_slave_pids(Queue)]];
        _ -> maps:get(nodes, amqqueue:get_type_state(Queue))
    end.

take_out(Queue) ->
    Done = case amqqueue:get_type(Queue) of
               rabbit_quorum_queue -> rabbit_quorum_queue:delete_member(vhost(Queue), name(Queue), node());
               rabbit_stream_queue -> rabbit_stream_queue:delete_replica(vhost(Queue), name(Queue), node());
               rabbit_classic_queue -> {error, mirrors_are_where_the_policy_has_them}
           end,
    kept(Done, Queue, fun(Nodes) -> not lists:member(node(), Nodes) end).

%% Since 4.0 who is taken in votes only once it has caught up.
take_in(Queue) ->
    Done = case {amqqueue:get_type(Queue), erlang:function_exported(rabbit_quorum_queue, add_member, 5)} of
               {rabbit_quorum_queue, false} ->
                   rabbit_quorum_queue:add_member(vhost(Queue), name(Queue), node(), 5000);
               {rabbit_quorum_queue, true} ->
                   rabbit_quorum_queue:add_member(vhost(Queue), name(Queue), node(), promotable, 5000);
               {rabbit_stream_queue, _} -> rabbit_stream_queue:add_replica(vhost(Queue), name(Queue), node());
               {rabbit_classic_queue, _} -> {error, mirrors_are_where_the_policy_has_them}
           end,
    kept(Done, Queue, fun(Nodes) -> lists:member(node(), Nodes) end).

%% Who belongs to it now, by its own leader where it has Raft, else by the database: a stream's coordinator, which has said
%% that it is done, writes it there a moment later.
kept(ok, Queue, AsWanted) -> kept(ok, Queue, AsWanted, 50);
kept({error, Why}, _, _) -> {error, Why};
kept(Other, _, _) -> {error, Other}.

kept(ok, Queue, AsWanted, Looks) ->
    {ok, Again} = rabbit_amqqueue:lookup(amqqueue:get_name(Queue)),
    Nodes = case amqqueue:get_type(Queue) of
                rabbit_quorum_queue ->
                    {Name, _} = amqqueue:get_pid(Again),
                    {ok, Ids, _} = ra:members([{Name, Node} || Node <- members(Again)], 5000),
                    [Node || {_, Node} <- Ids];
                _ -> members(Again)
            end,
    case AsWanted(Nodes) of
        true -> {ok, [<<"kept by ">>, lists:join(<<", ">>, [short(Node) || Node <- Nodes])]};
        false when Looks > 0 -> timer:sleep(100), kept(ok, Queue, AsWanted, Looks - 1);
        false -> {error, {still, Nodes}}
    end.

short(Node) -> lists:last(string:split(atom_to_list(Node), "@")).

is_led_here(Queue) ->
    case amqqueue:get_type(Queue) of
        rabbit_quorum_queue ->
            {Name, _} = amqqueue:get_pid(Queue),
            try ets:lookup_element(ra_state, Name, 2) =:= leader catch _:_ -> false end;
        rabbit_classic_queue -> is_here(amqqueue:get_pid(Queue));
        rabbit_stream_queue -> maps:get(leader_node, amqqueue:get_type_state(Queue), none) =:= node()
    end.

%% Who may lead a queue instead of this node: the one that is named, or all that are connected.
heirs(Queue, To) ->
    [Node || Node <- members(Queue), Node =/= node(), lists:member(Node, nodes()),
             To =:= <<>> orelse <<"\t", (list_to_binary(short(Node)))/binary>> =:= To].

hand_over(Queue, [To | Others]) ->
    Done = case amqqueue:get_type(Queue) of
               rabbit_quorum_queue -> rabbit_quorum_queue:transfer_leadership(Queue, To);
               rabbit_classic_queue -> rabbit_mirror_queue_misc:transfer_leadership(Queue, To);
               rabbit_stream_queue -> rabbit_stream_queue:transfer_leadership(Queue, To)
           end,
    case {followed(Queue, 30), Others} of
        {none, []} -> {error, Done};
        {none, _} -> hand_over(Queue, Others);
        {Node, _} -> {ok, [<<"led by ">>, short(node()), <<", then by ">>, short(Node)]}
    end.

%% Who leads it now, once somebody does and it is not this node any more; looked at so many times, 0.1 s apart.
followed(_, 0) -> none;
followed(Queue, Looks) ->
    timer:sleep(100),
    {ok, Again} = rabbit_amqqueue:lookup(amqqueue:get_name(Queue)),
    Leader = case amqqueue:get_type(Queue) of
                 rabbit_quorum_queue ->
                     {Name, _} = amqqueue:get_pid(Again),
                     Ids = [{Name, Node} || Node <- members(Again), Node =/= node(), lists:member(Node, nodes())],
                     try {ok, _, {_, Node}} = ra:members(Ids, 1000), Node catch _:_ -> node() end;
                 rabbit_classic_queue -> node(amqqueue:get_pid(Again));
                 rabbit_stream_queue -> maps:get(leader_node, amqqueue:get_type_state(Again), node())
             end,
    case Leader =:= node() of
        true -> followed(Queue, Looks - 1);
        false -> Leader
    end.

node_of({pid, Pid}) when is_pid(Pid) -> atom_to_binary(node(Pid), utf8);
node_of({pid, _}) -> <<>>;
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
