/**
 * Numbers both sides agree on, each with the reason it has that value.
 */

/** A base worker's socket closes with 1009 at 1 MiB, so frames to one stay under it. */
export const BASE_WORKER_FRAME_BYTES = 1024 * 1024;

/** The same of a base queue: its local server closes at 16 MiB, the runtime of the deployed one at 32 MiB. */
export const BASE_QUEUE_FRAME_BYTES = 16 * 1024 * 1024;

/** Both hosts close a socket with 1009 at 32 MiB; the queue closes it earlier, with a reason. */
export const FRAME_BYTES = 21 * 1024 * 1024;

/**
 * The most that `QUEUE_MAX_BODY_BYTES` can be: a body is in memory three times on its way, in the gateway, in the
 * queue and in a frame.
 */
export const MOST_BODY_BYTES = 256 * 1024 * 1024;

/** The largest frame for a worker: the longest body and the job it belongs to. */
export const BODY_FRAME_BYTES = MOST_BODY_BYTES + FRAME_BYTES;

/** A larger payload or result goes by reference instead of in a frame (the base SDK's figure for results). */
export const INLINE_BYTES = 256 * 1024;

/** The largest payload or result accepted anywhere; above it the answer is 413. */
export const PAYLOAD_BYTES = 20 * 1024 * 1024;

/**
 * A result of at most this many UTF-16 units of JSON lies in the row of its job, at worst 0.8 MB of the 2 that
 * Cloudflare gives a row; a longer one, like a payload over INLINE_BYTES, in a file.
 */
export const ROW_RESULT_CHARACTERS = INLINE_BYTES;

/** All errors of a job together, UTF-16 units of JSON: at worst 0.3 MB of the same row. */
export const JOB_ROW_ERROR_CHARACTERS = 100_000;

/** Most jobs in one submission: one commit, one answer. */
export const JOBS_PER_SUBMISSION = 1000;

/** Most jobs in one body of lines: a commit for every thousand, within the time of one request. */
export const LINES_PER_SUBMISSION = 10_000;

/** Lease for an extended worker, seconds (the base README's default). */
export const LEASE_SECONDS = 30;

/** A base worker renews every 30 s from its own start, so shorter leases would kill healthy jobs. */
export const BASE_LEASE_SECONDS = 300;

/**
 * A base worker that is back on a new connection has named what it still holds by then, seconds: it does so every 30 s,
 * and one such frame may be lost. What it does not name is what it finished while it had no connection, and dropped.
 */
export const BASE_NAMED_WITHIN_SECONDS = 70;

/** Share of the lease after which it is renewed (the base README's default). */
export const RENEW_SHARE = 0.8;

/** How long a queue waits for a worker whose socket closed before its jobs go elsewhere, seconds. */
export const RECONNECT_GRACE_SECONDS = 10;

/** Failures a job may be blamed for before it fails for good. */
export const MAX_ATTEMPTS = 3;

/** Application-level ping period on both sockets, seconds; two missed ones mean a dead peer. */
export const PING_SECONDS = 15;

/** A worker that hears no `registered` within this time is talking to a base queue, ms. */
export const REGISTERED_WITHIN_MS = 1000;

/**
 * Bytes of one answer the worker keeps until the relay has taken them; beyond it the engine is paused. So many of each
 * answer can be on their way when the relay asks for a pause (docs/decisions/large-bodies.md).
 */
export const ANSWER_WINDOW_BYTES = 1024 * 1024;

/** Bytes of one server-sent event that the worker holds until it is whole: well under the window, since they are sent at once. */
export const EVENT_HELD_BYTES = 256 * 1024;

/** The relay reports what it has taken after this many bytes of one stream. */
export const TAKEN_EVERY_BYTES = 64 * 1024;

/** Bytes of one answer the relay holds for a caller that reads slowly before it pauses the worker. */
export const RELAY_BUFFER_BYTES = 1024 * 1024;

/** Bytes of a stored job's answer that the relay keeps for those who watch it; beyond it the beginning is dropped. */
export const REPLAY_BUFFER_BYTES = 4 * 1024 * 1024;

/** The same of all such answers of a worker together. */
export const REPLAY_BUFFERS_BYTES = 32 * 1024 * 1024;

/** Models remembered after their workers are gone: of one worker, and of a queue. Longer names are not. */
export const KNOWN_MODELS_PER_WORKER = 64;
export const KNOWN_MODELS = 1000;

/**
 * How long a model is known after its last worker left, seconds: requests for it are answered 503 until then, so that
 * clients try again over a night without workers, and 404 after it.
 */
export const MODEL_KNOWN_SECONDS = 86_400;
export const MODEL_NAME_CHARACTERS = 256;

/** JSON of one model's card from an engine; more is not remembered. */
export const MODEL_CARD_CHARACTERS = 4096;

/** Responses of which is remembered whose engine keeps them. */
export const KNOWN_RESPONSES = 10_000;

/** Browsers that are signed in to the page with one token at a time. */
export const SIGN_INS_OF_TOKEN = 100;

/** Workers remembered of a queue, connected or not: with the longest last words all of them fit one answer. */
export const KNOWN_WORKERS = 2000;

/** Bytes of all answers of a worker together that no caller has asked for yet; beyond it such answers are paused. */
export const RELAY_UNCLAIMED_BYTES = 16 * 1024 * 1024;

/** The same for a worker that sends on all the same: what goes beyond it is broken. */
export const RELAY_UNCLAIMED_MOST_BYTES = 4 * RELAY_UNCLAIMED_BYTES;

/**
 * Bytes of one answer that a relay takes after it has paused the worker: what a worker may have had on its way is a
 * window and what one read of the engine brings. The answer of one that sends on is broken.
 */
export const SENT_WHILE_PAUSED_BYTES = 2 * ANSWER_WINDOW_BYTES;

/** Levels of nested JSON that are taken: more than any request has, while parsers of engines give up at a thousand. */
export const JSON_DEPTH = 512;

/**
 * Texts, keys of objects, objects and arrays that JSON of a caller may have; numbers, `true`, `false` and `null` are
 * not counted. Measured: parsing and writing so many takes 0.02 to 0.3 s, the most where every object has a key of its
 * own; ten million numbers, all that 20 MiB hold, 0.2 s. A chat of a thousand messages with 128 tools has some 40,000.
 */
export const JSON_VALUES = 250_000;

/** Attempts that the request of a waiting caller gets, as long as nothing of an answer has reached the caller. */
export const CALL_ATTEMPTS = 3;

/**
 * Bytes of a request whose answer may be moved: a prompt of 128,000 tokens takes about as much, and a worker reads all
 * of it.
 */
export const MOVING_BODY_BYTES = 512 * 1024;

/** Ids of prompt and tokens that a relay keeps of one answer, four bytes each; beyond it the answer stays. */
export const MOVING_IDS = 131_072;

/** The same of all answers of a worker together, 8 MiB: those that come when so many are kept stay. */
export const MOVING_IDS_OF_WORKER = 16 * MOVING_IDS;

/**
 * What has been generated of a stored job, UTF-16 units of JSON, that its row keeps for another attempt: at worst 0.8 MB
 * beside the payload, 40,000 tokens or so without probabilities. What is longer is generated again.
 */
export const PARTIAL_ANSWER_CHARACTERS = 256 * 1024;

/** Parts of such answers, UTF-16 units of JSON, that go with one renewal of a worker's leases; others go with the next. */
export const PARTS_CHARACTERS = 4 * PARTIAL_ANSWER_CHARACTERS;

/**
 * What a queue keeps in memory of all answers that workers are making of stored jobs: some two million tokens without
 * probabilities. Of those that come when so much is kept nothing is.
 */
export const PARTIAL_ANSWERS_BYTES = 32 * 1024 * 1024;

/** Times that one answer is moved: machines that go away one after another must not carry it along for ever. */
export const MOVES = 8;
