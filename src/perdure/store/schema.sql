-- The whole schema, for SQLite and PostgreSQL alike: what a new database is made from.
-- The migrations lead to the same tables; a test holds the two together on both databases.
-- Times are UTC milliseconds. Ids are made by us and sort by time. Bodies are JSON.

-- One start of one gateway, which is known by the id in its home (instance). A run with an ending is dead, for
-- everybody and for good. A run of an older version does not say which entries it can read, and counts as one that can
-- serve every chat.
CREATE TABLE runs (
  id           TEXT PRIMARY KEY,
  instance     TEXT NOT NULL,
  version      TEXT NOT NULL,
  started_at   BIGINT NOT NULL,
  heartbeat_at BIGINT NOT NULL,
  ended_at     BIGINT,
  ending       TEXT CHECK (ending IN ('clean', 'lost')),
  restart_for  TEXT, -- the key of the session that asked for a restart, and wants to hear of it
  launch       TEXT, -- the name that the supervisor gave this start of the process
  died_at      BIGINT, -- when the supervisor saw the process die
  exit_code    BIGINT, -- of that death; below zero, the signal that killed the process
  beats        BIGINT NOT NULL DEFAULT 0, -- raised by every heartbeat: a run whose count stands still is dead
  lease_ms     BIGINT NOT NULL DEFAULT 30000, -- for how long the count must stand still
  former       TEXT, -- what the instance was called before it had an id
  lock_id      TEXT, -- identifies the lock of its home: whoever holds the same lock knows that the run is dead
  home         TEXT, -- its machine and path, for people to read
  entry_version BIGINT, -- the newest version of journal entries that it can read
  draining     BIGINT NOT NULL DEFAULT 0, -- 1 once it stops: others may have its idle chats
  back_by      BIGINT, -- until when what is on its machine waits for the same gateway to come back
  drain_asked_at BIGINT, -- when an operator asked it, through any gateway, to drain and stop
  CHECK ((ended_at IS NULL) = (ending IS NULL))
);
CREATE INDEX runs_live ON runs (instance) WHERE ended_at IS NULL;
CREATE INDEX runs_back ON runs (instance) WHERE back_by IS NOT NULL;
CREATE INDEX runs_asked ON runs (id) WHERE restart_for IS NOT NULL;
CREATE INDEX runs_launched ON runs (launch) WHERE launch IS NOT NULL;

-- What a run can serve: an agent on a platform, both as they are written in session keys, and its account there.
CREATE TABLE run_services (
  run      TEXT NOT NULL REFERENCES runs (id),
  platform TEXT NOT NULL,
  agent    TEXT NOT NULL,
  account  TEXT NOT NULL,
  PRIMARY KEY (run, platform, agent)
);

-- Which run receives what is polled, or comes over a socket, for an account on a platform, which is written as in
-- session keys. The epoch grows whenever a run begins to receive.
CREATE TABLE receiving_leases (
  platform TEXT NOT NULL,
  account  TEXT NOT NULL,
  run      TEXT REFERENCES runs (id) ON DELETE SET NULL,
  epoch    BIGINT NOT NULL,
  PRIMARY KEY (platform, account)
);

-- A conversation. Its key is for ever; a new id begins when it is reset. Who cannot read entries of its version leaves
-- it alone; none: the first version.
CREATE TABLE sessions (
  id                TEXT PRIMARY KEY,
  key               TEXT NOT NULL,
  state             TEXT NOT NULL CHECK (state IN ('open', 'suspended', 'closed')),
  auto_reset_reason TEXT,
  created_at        BIGINT NOT NULL,
  updated_at        BIGINT NOT NULL,
  entry_version     BIGINT
);
CREATE UNIQUE INDEX sessions_current ON sessions (key) WHERE state <> 'closed';
CREATE INDEX sessions_recent ON sessions (updated_at, id) WHERE state <> 'closed';
CREATE INDEX sessions_suspended ON sessions (id) WHERE state = 'suspended';
CREATE INDEX sessions_of_key ON sessions (key, id);
CREATE INDEX sessions_newer ON sessions (key) WHERE entry_version IS NOT NULL;

-- What belongs to a key: who may run it (run, epoch), its newest turn (generation), and the last place
-- given out in the order of what is seen in its chat (position). What a message does there that finds it busy
-- (mode; none: as configured), since when its queue is full, if the chat was told so (full_since), and how many
-- messages were too old to be answered, of which the chat was not told yet (untold). A take-over that failed is not
-- tried again before a time (retry_at), for a reason (problem). Files and commands of the chat are on the machine of one
-- installation (instance).
CREATE TABLE leases (
  key        TEXT PRIMARY KEY,
  run        TEXT REFERENCES runs (id),
  epoch      BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  position   BIGINT NOT NULL,
  mode       TEXT CHECK (mode IN ('queue', 'steer', 'interrupt', 'collect')),
  full_since BIGINT,
  untold     BIGINT NOT NULL DEFAULT 0,
  retry_at   BIGINT,
  problem    TEXT,
  instance   TEXT
);
CREATE INDEX leases_of_run ON leases (run) WHERE run IS NOT NULL;
CREATE INDEX leases_untold ON leases (key) WHERE untold > 0;

-- A turn's row is the fold of its journal entries, written in the same transaction.
CREATE TABLE turns (
  id         TEXT PRIMARY KEY,
  session    TEXT NOT NULL REFERENCES sessions (id),
  key        TEXT NOT NULL,
  generation BIGINT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN
               ('queued', 'running', 'waiting', 'interrupted', 'done', 'failed', 'cancelled')),
  epoch      BIGINT NOT NULL,
  attempt    BIGINT NOT NULL,
  first_seq  BIGINT NOT NULL,
  began_at   BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX turns_begun ON turns (key) WHERE state IN ('queued', 'running', 'waiting', 'interrupted');
CREATE INDEX turns_of_session ON turns (session, generation);

-- The facts, in order. Append only.
CREATE TABLE journal (
  session TEXT NOT NULL REFERENCES sessions (id),
  seq     BIGINT NOT NULL,
  turn    TEXT NOT NULL REFERENCES turns (id),
  kind    TEXT NOT NULL,
  version BIGINT NOT NULL,
  body    TEXT NOT NULL,
  at      BIGINT NOT NULL,
  PRIMARY KEY (session, seq)
);
CREATE INDEX journal_of_turn ON journal (turn);
CREATE INDEX journal_marks ON journal (session, seq) WHERE kind = 'interrupted';
CREATE INDEX journal_decided ON journal (at, session, seq) WHERE kind = 'interrupted';
CREATE INDEX journal_summaries ON journal (session, seq) WHERE kind = 'compacted';

-- What was received. The event key makes the same event act once. A command is bound to the turn that was
-- current when it was stored; one that was carried out is obeyed. A wish begins a turn without words, and a report
-- one with words of ours. An aside begins none: the session's next turn takes it along. A change is an edit of
-- another message. What a message does to a busy session is fixed when it is stored, as its manner.
CREATE TABLE inbox (
  id          TEXT PRIMARY KEY,
  event_key   TEXT NOT NULL UNIQUE,
  key         TEXT,
  session     TEXT REFERENCES sessions (id),
  kind        TEXT NOT NULL DEFAULT 'message' CHECK (kind IN
                ('message', 'command', 'wish', 'report', 'aside', 'change')),
  state       TEXT NOT NULL CHECK (state IN
                ('waiting', 'taken', 'obeyed', 'rejected', 'withdrawn', 'expired', 'deleted')),
  turn        TEXT REFERENCES turns (id),
  bound       TEXT REFERENCES turns (id),
  body        TEXT,
  raw         TEXT NOT NULL,
  problem     TEXT,
  position    BIGINT,
  received_at BIGINT NOT NULL,
  manner      TEXT CHECK (manner IN ('queue', 'steer', 'interrupt', 'collect')),
  sent_at     BIGINT,
  CHECK (manner IS NULL OR kind = 'message'),
  CHECK ((state = 'taken') = (turn IS NOT NULL)),
  CHECK ((state = 'rejected') = (problem IS NOT NULL)),
  CHECK (state = 'rejected' OR (key IS NOT NULL AND body IS NOT NULL AND position IS NOT NULL))
);
-- Each has its own condition among its columns, or SQLite would rather walk through all that was ever received.
CREATE INDEX inbox_waiting ON inbox (key, state, position) WHERE state = 'waiting';
CREATE INDEX inbox_orders ON inbox (key, state, kind, position) WHERE state = 'waiting' AND kind = 'command';
CREATE INDEX inbox_steering ON inbox (key, state, manner, position) WHERE state = 'waiting' AND manner = 'steer';
CREATE INDEX inbox_pressing ON inbox (key, state, manner, position) WHERE state = 'waiting' AND manner = 'interrupt';
CREATE INDEX inbox_news ON inbox (key, state, kind, position) WHERE state = 'waiting' AND kind IN ('report', 'aside');
CREATE INDEX inbox_seen ON inbox (key, position);
CREATE INDEX inbox_of_session ON inbox (session);
CREATE INDEX inbox_of_turn ON inbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX inbox_bound ON inbox (bound) WHERE bound IS NOT NULL;
CREATE INDEX inbox_rejected ON inbox (id) WHERE state = 'rejected' AND key IS NULL;

-- What is owed to people: one lane per address, in the order of the ids. A row that edits takes the place of
-- the message with that receipt.
CREATE TABLE outbox (
  id           TEXT PRIMARY KEY,
  delivery_key TEXT NOT NULL UNIQUE,
  lane         TEXT NOT NULL,
  key          TEXT NOT NULL,
  turn         TEXT REFERENCES turns (id),
  reply        TEXT NOT NULL,
  part         BIGINT NOT NULL,
  text         TEXT NOT NULL,
  reply_to     TEXT,
  buttons      TEXT,
  edits        TEXT,
  state        TEXT NOT NULL CHECK (state IN
                 ('owed', 'sending', 'sent', 'unknown', 'refused', 'expired', 'withdrawn')),
  attempts     BIGINT NOT NULL,
  due_at       BIGINT NOT NULL,
  run          TEXT REFERENCES runs (id),
  receipt      TEXT,
  problem      TEXT,
  position     BIGINT,
  created_at   BIGINT NOT NULL,
  updated_at   BIGINT NOT NULL,
  file         TEXT, -- as JSON, of a message that is a file
  CHECK ((state = 'sending') = (run IS NOT NULL)),
  CHECK ((state = 'sent') = (position IS NOT NULL))
);
CREATE INDEX outbox_open ON outbox (lane, id) WHERE state IN ('owed', 'sending', 'unknown');
CREATE INDEX outbox_seen ON outbox (key, position) WHERE state = 'sent';
CREATE INDEX outbox_of_turn ON outbox (turn);
CREATE INDEX outbox_of_run ON outbox (run) WHERE run IS NOT NULL;

-- What people see of an answer while it grows, where messages can be edited: never the answer itself.
CREATE TABLE previews (
  delivery_key TEXT PRIMARY KEY,
  turn         TEXT NOT NULL REFERENCES turns (id),
  state        TEXT NOT NULL CHECK (state IN ('sending', 'shown', 'settled', 'lost')),
  receipt      TEXT,
  created_at   BIGINT NOT NULL,
  CHECK (state NOT IN ('shown', 'settled') OR receipt IS NOT NULL)
);
CREATE INDEX previews_of_turn ON previews (turn);

-- What a session works towards by itself. The model's own words, or the budget of turns, end it.
CREATE TABLE goals (
  id         TEXT PRIMARY KEY,
  session    TEXT NOT NULL REFERENCES sessions (id),
  text       TEXT NOT NULL,
  person     TEXT NOT NULL,
  message    TEXT NOT NULL,
  since      BIGINT NOT NULL,
  budget     BIGINT NOT NULL,
  turns      BIGINT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('active', 'reached', 'given_up', 'spent', 'ended')),
  created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX goals_active ON goals (session) WHERE state = 'active';
CREATE INDEX goals_of_session ON goals (session, id);

-- Files that came with a message: a reference first, the bytes later, after so many tries. One of a turn's was sent
-- by it. One of neither was uploaded, and no message has named it yet.
CREATE TABLE attachments (
  id         TEXT PRIMARY KEY,
  inbox      TEXT REFERENCES inbox (id),
  ordinal    BIGINT NOT NULL,
  name       TEXT NOT NULL,
  reference  TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size       BIGINT,
  state      TEXT NOT NULL CHECK (state IN ('referenced', 'fetched', 'failed')),
  path       TEXT,
  problem    TEXT,
  turn       TEXT REFERENCES turns (id),
  attempts   BIGINT NOT NULL DEFAULT 0,
  due_at     BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL DEFAULT 0,
  UNIQUE (inbox, ordinal),
  CHECK ((state = 'fetched') = (path IS NOT NULL)),
  CHECK ((state = 'failed') = (problem IS NOT NULL)),
  CHECK (inbox IS NOT NULL OR state = 'fetched')
);
CREATE INDEX attachments_of_turn ON attachments (turn) WHERE turn IS NOT NULL;
CREATE INDEX attachments_here ON attachments (reference) WHERE state = 'fetched';
CREATE INDEX attachments_unused ON attachments (created_at) WHERE inbox IS NULL AND turn IS NULL;

-- The bytes of attachments, where several gateways share the database. Only a stored content counts. One that is being
-- written counts for nothing, and goes when its run has ended; an erased one is deleted with its chunks. `size` is how
-- many bytes are here; `digest` is the SHA-256 of the whole file, known once every chunk is here.
CREATE TABLE file_contents (
  id         TEXT PRIMARY KEY,
  attachment TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('writing', 'stored', 'erased')),
  run        TEXT NOT NULL,
  size       BIGINT NOT NULL,
  digest     TEXT,
  written_at BIGINT NOT NULL,
  CHECK (state <> 'stored' OR digest IS NOT NULL)
);
CREATE UNIQUE INDEX file_contents_stored ON file_contents (attachment) WHERE state = 'stored';
CREATE INDEX file_contents_of_attachment ON file_contents (attachment);
CREATE INDEX file_contents_not_stored ON file_contents (state, id) WHERE state <> 'stored';

CREATE TABLE file_chunks (
  content TEXT NOT NULL REFERENCES file_contents (id),
  number  BIGINT NOT NULL,
  bytes   BYTEA NOT NULL,
  PRIMARY KEY (content, number)
);

-- Who is known by name, and as what: in one chat, or, if none is named, on the whole platform.
CREATE TABLE people (
  platform TEXT NOT NULL,
  person   TEXT NOT NULL,
  name     TEXT NOT NULL,
  role     TEXT NOT NULL CHECK (role IN ('owner', 'member', 'guest')),
  added_at BIGINT NOT NULL,
  chat     TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (platform, person, chat)
);

-- Who asks to be let in, with the digest of the code that they were told in the chat of that key.
CREATE TABLE pairings (
  id         TEXT PRIMARY KEY,
  platform   TEXT NOT NULL,
  person     TEXT NOT NULL,
  name       TEXT NOT NULL,
  key        TEXT NOT NULL,
  digest     TEXT NOT NULL,
  asked_at   BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  UNIQUE (platform, person)
);

-- Codes that were tried and belong to nobody; those of the last minutes are kept.
CREATE TABLE pair_tries (
  id TEXT PRIMARY KEY,
  at BIGINT NOT NULL
);

-- Logins of the HTTP API: tokens, and the cookies that browsers got for one. Only digests of the secrets are here. A
-- cookie without a token is one of the home's own token. `scopes` are words with commas between them.
CREATE TABLE logins (
  id           TEXT PRIMARY KEY,
  kind         TEXT NOT NULL CHECK (kind IN ('token', 'cookie')),
  name         TEXT NOT NULL,
  digest       TEXT NOT NULL UNIQUE,
  person       TEXT NOT NULL,
  person_name  TEXT NOT NULL,
  scopes       TEXT NOT NULL,
  token        TEXT REFERENCES logins (id),
  created_at   BIGINT NOT NULL,
  expires_at   BIGINT,
  last_used_at BIGINT,
  CHECK (token IS NULL OR kind = 'cookie')
);
CREATE UNIQUE INDEX logins_named ON logins (name) WHERE kind = 'token';
CREATE INDEX logins_of_token ON logins (token) WHERE token IS NOT NULL;

-- Commands that go on in the background, by the directory of their keeper, on record before anything of them runs.
-- `generation` is the number of the newest turn that they belong to. What was found in the output by the patterns
-- (as JSON) has a notice at `noticed_at`; since then, `unnoticed` further matches were counted, and `strikes` times
-- in a row there were some. `told` says who heard of the end. Gateways on other machines ask the one that runs it to
-- stop it (stop_asked_at) or to record the end of its output (output_asked_at, output_tail; output_size: of all of it).
CREATE TABLE processes (
  id         TEXT PRIMARY KEY,
  key        TEXT NOT NULL,
  session    TEXT NOT NULL REFERENCES sessions (id),
  turn       TEXT NOT NULL REFERENCES turns (id),
  call       TEXT NOT NULL,
  generation BIGINT NOT NULL,
  person     TEXT NOT NULL,
  instance   TEXT NOT NULL,
  directory  TEXT NOT NULL UNIQUE,
  command    TEXT NOT NULL,
  notify     BIGINT NOT NULL,
  patterns   TEXT NOT NULL,
  watching   BIGINT NOT NULL,
  scanned    BIGINT NOT NULL,
  notices    BIGINT NOT NULL,
  noticed_at BIGINT,
  unnoticed  BIGINT NOT NULL,
  strikes    BIGINT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('live', 'ended', 'lost')),
  exit_code  BIGINT,
  signal     BIGINT,
  started_at BIGINT NOT NULL,
  ended_at   BIGINT,
  told       TEXT CHECK (told IN ('report', 'notice', 'seen', 'nobody')),
  stop_asked_at   BIGINT,
  output_asked_at BIGINT,
  output_tail     TEXT,
  output_size     BIGINT,
  CHECK ((state = 'live') = (ended_at IS NULL)),
  CHECK ((state = 'live') = (told IS NULL)),
  CHECK (state = 'ended' OR (exit_code IS NULL AND signal IS NULL))
);
CREATE INDEX processes_live ON processes (session) WHERE state = 'live';
CREATE INDEX processes_asked ON processes (id) WHERE state = 'live' AND (stop_asked_at IS NOT NULL OR output_asked_at IS NOT NULL);
CREATE INDEX processes_of_key ON processes (key, id);
CREATE INDEX processes_of_session ON processes (session);
CREATE INDEX processes_of_turn ON processes (turn);

-- What is left of what was erased: digests of events, which must not come back, and the names of what may have left
-- files behind. A session that is still there is to be erased.
CREATE TABLE erased (
  name TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('session', 'turn', 'event', 'file')),
  at   BIGINT NOT NULL
);
CREATE INDEX erased_of_kind ON erased (kind, at);

-- How many transactions each writer has made: tells, after a lost acknowledgement, whether one was kept.
CREATE TABLE writers (
  id           TEXT PRIMARY KEY,
  transactions BIGINT NOT NULL
);
