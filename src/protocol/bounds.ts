/** Numbers on which both sides agree, each with the reason for its value. */

/** The largest frame to a base worker stays under 1 MiB: its socket closes with 1009 there. */
export const BASE_WORKER_FRAME_BYTES = 1024 * 1024;

/** The largest frame to a base queue: its local server closes at 16 MiB, the runtime of the deployed one at 32 MiB. */
export const BASE_QUEUE_FRAME_BYTES = 16 * 1024 * 1024;

/**
 * The largest frame to the queue: both hosts close a socket with 1009 at 32 MiB; the queue closes it earlier, with a
 * reason.
 */
export const FRAME_BYTES = 21 * 1024 * 1024;

/**
 * The largest `QUEUE_MAX_BODY_BYTES`: a body is in memory three times on its way, in the gateway, in the queue and in a
 * frame.
 */
export const MOST_BODY_BYTES = 256 * 1024 * 1024;

/** The largest frame to a worker: the longest body and the job it belongs to. */
export const BODY_FRAME_BYTES = MOST_BODY_BYTES + FRAME_BYTES;

/** The largest payload or result in a frame; a larger one goes by reference (the base SDK's figure for results). */
export const INLINE_BYTES = 256 * 1024;

/** The largest payload or result accepted anywhere; a larger one is answered with 413. */
export const PAYLOAD_BYTES = 20 * 1024 * 1024;

/**
 * The longest result in the row of its job, UTF-16 units of JSON: at worst 0.8 MB of the 2 that Cloudflare gives a row.
 * A longer one, like a payload over INLINE_BYTES, lies in a file.
 */
export const ROW_RESULT_CHARACTERS = INLINE_BYTES;

/** The size of all errors of a job together in its row, UTF-16 units of JSON: at worst 0.3 MB of the 2 per row. */
export const JOB_ROW_ERROR_CHARACTERS = 100_000;

/** The most jobs in one submission: one commit, one answer. */
export const JOBS_PER_SUBMISSION = 1000;

/** The most jobs in one body of lines: a commit for every thousand, within the time of one request. */
export const LINES_PER_SUBMISSION = 10_000;

/** The lease of an extended worker, seconds (the base README's default). */
export const LEASE_SECONDS = 30;

/**
 * The lease of a base worker, seconds: it renews every 30 s from its own start, so a shorter lease would kill healthy
 * jobs.
 */
export const BASE_LEASE_SECONDS = 300;

/**
 * A base worker that is back on a new connection has named the jobs that it still holds within this many seconds: it
 * does so every 30 s, and one such frame may be lost. It does not name the jobs that it finished without a connection
 * and dropped.
 */
export const BASE_NAMED_WITHIN_SECONDS = 70;

/** The share of the lease after which a worker renews it (the base README's default). */
export const RENEW_SHARE = 0.8;

/** The queue waits this many seconds for a worker whose socket closed before it gives the worker's jobs to others. */
export const RECONNECT_GRACE_SECONDS = 10;

/**
 * Gateway processes wait this many seconds for a queue that is out of reach. As long as the queue waits for workers
 * behind a gateway process that is out of its reach, if the reconnect grace is shorter: they go on with their answers.
 */
export const GATEWAY_AWAY_SECONDS = 30;

/** The attempts that may be charged to a job before it fails for good. */
export const MAX_ATTEMPTS = 3;

/** The period of application-level pings on both sockets, seconds; two missed pings mean a dead peer. */
export const PING_SECONDS = 15;

/** A worker that receives no `registered` within this many ms is connected to a base queue. */
export const REGISTERED_WITHIN_MS = 1000;

/**
 * The bytes of one answer that the worker keeps until the relay has taken them; beyond it the worker pauses the engine.
 * So many bytes of each answer can be on their way when the relay asks for a pause (docs/decisions/large-bodies.md).
 */
export const ANSWER_WINDOW_BYTES = 1024 * 1024;

/**
 * The bytes of one server-sent event that the worker holds until it is whole: well under the window, since they are
 * sent at once.
 */
export const EVENT_HELD_BYTES = 256 * 1024;

/** The relay reports at once what it has taken after this many bytes of one stream. */
export const TAKEN_AT_ONCE_BYTES = 64 * 1024;

/** After this many bytes of one stream the relay reports what it has taken together with other replies. */
export const TAKEN_EVERY_BYTES = 2 * 1024;

/** The bytes of one answer that the relay holds for a slow caller before it pauses the worker. */
export const RELAY_BUFFER_BYTES = 1024 * 1024;

/**
 * The bytes of a stored job's answer that the relay keeps for those who watch it; beyond it the relay drops the
 * beginning.
 */
export const REPLAY_BUFFER_BYTES = 4 * 1024 * 1024;

/** The bytes of all answers to stored jobs that the relay keeps of one worker. */
export const REPLAY_BUFFERS_BYTES = 32 * 1024 * 1024;

/**
 * The most models of one worker, and of a queue, that are remembered after their workers are gone. Names longer than
 * MODEL_NAME_CHARACTERS are not.
 */
export const KNOWN_MODELS_PER_WORKER = 64;
export const KNOWN_MODELS = 1000;

/**
 * A model is known for this many seconds after its last worker left: requests for it are answered 503 until then, so
 * that clients try again over a night without workers, and 404 after it.
 */
export const MODEL_KNOWN_SECONDS = 86_400;
export const MODEL_NAME_CHARACTERS = 256;

/** The longest JSON of one model's card from an engine that is remembered. */
export const MODEL_CARD_CHARACTERS = 4096;

/** The most browsers that are signed in to the page with one token at a time. */
export const SIGN_INS_OF_TOKEN = 100;

/**
 * The most workers that are remembered of a queue, connected or not: with the longest last words all of them fit one
 * answer.
 */
export const KNOWN_WORKERS = 2000;

/** The bytes of all answers of a worker that no caller has claimed yet; beyond it such answers are paused. */
export const RELAY_UNCLAIMED_BYTES = 16 * 1024 * 1024;

/** The bytes of unclaimed answers from a worker that sends on when paused; answers beyond it are broken off. */
export const RELAY_UNCLAIMED_MOST_BYTES = 4 * RELAY_UNCLAIMED_BYTES;

/**
 * The bytes of one answer that a relay takes after it has paused the worker: a worker may have had on its way a window
 * and what one read of the engine brings. The relay breaks off an answer that exceeds it.
 */
export const SENT_WHILE_PAUSED_BYTES = 2 * ANSWER_WINDOW_BYTES;

/**
 * The most levels of nested JSON that are accepted: more than any request has, while parsers of engines give up at a
 * thousand.
 */
export const JSON_DEPTH = 512;

/**
 * The most texts, keys of objects, objects and arrays in a caller's JSON; numbers, `true`, `false` and `null` are not
 * counted. Measured: parsing and writing so many takes 0.02 to 0.3 s, the most where every object has a key of its own;
 * ten million numbers, all that 20 MiB hold, take 0.2 s. A chat of a thousand messages with 128 tools has some 40,000.
 */
export const JSON_VALUES = 250_000;

/** The attempts that the request of a waiting caller gets, as long as nothing of an answer has reached the caller. */
export const CALL_ATTEMPTS = 3;

/**
 * The longest request, bytes, whose answer may be moved: a prompt of 128,000 tokens takes about as much, and a worker
 * reads all of it.
 */
export const MOVING_BODY_BYTES = 512 * 1024;

/**
 * The ids of prompt and tokens that a relay keeps of one answer, four bytes each; a longer answer stays at its worker.
 */
export const MOVING_IDS = 131_072;

/** The ids that a relay keeps of all answers of a worker, 8 MiB; further answers stay at that worker. */
export const MOVING_IDS_OF_WORKER = 16 * MOVING_IDS;

/**
 * The longest partial answer of a stored job, UTF-16 units of JSON, that its row keeps for another attempt: at worst
 * 0.8 MB beside the payload, 40,000 tokens or so without probabilities. A longer answer is generated again.
 */
export const PARTIAL_ANSWER_CHARACTERS = 256 * 1024;

/**
 * The size of the parts of partial answers, UTF-16 units of JSON, that go with one renewal of a worker's leases; others
 * go with the next.
 */
export const PARTS_CHARACTERS = 4 * PARTIAL_ANSWER_CHARACTERS;

/**
 * The bytes that a queue keeps in memory of the partial answers of stored jobs: some two million tokens without
 * probabilities. Beyond it the queue keeps nothing of further answers.
 */
export const PARTIAL_ANSWERS_BYTES = 32 * 1024 * 1024;

/** The times that one answer may be moved: machines that go away one after another must not carry it along for ever. */
export const MOVES = 8;
