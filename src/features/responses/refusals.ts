import { isFinal, type Refusal, type ResponseStatus } from './types.ts';

/** The refusals where a response cannot be made from what is stored, in OpenAI's words where it has some. */

/** The most items that a response may have before its own input. */
export const MOST_ITEMS = 1000;

export const TOO_LONG: Refusal = {
  status: 409,
  message: `There would be more than ${MOST_ITEMS} items before a response; begin anew with those that matter.`,
  code: 'resolved_snapshot_too_large',
  param: null,
};

/** Refuses items that have too many bytes together. @param most the most that are left for them */
export function tooLarge(most: number): Refusal {
  const message = `The items before a response may have ${Math.max(0, most)} bytes here, which is what its request leaves of a body's size, and there are more; begin anew with those that matter.`;
  return { ...TOO_LONG, message };
}

/** Refuses a response in the background that a row of the database does not hold: on Cloudflare that has 2 MB. */
export const SETTINGS_TOO_LARGE: Refusal = {
  status: 413,
  message:
    'The instructions, tools and other settings of this response are too long to be stored while it runs in the background. Move what is long into "input", or ask without "background".',
  code: 'too_large',
  param: 'background',
};

export const LOCKED: Refusal = {
  status: 400,
  message: 'Another process is currently operating on this conversation. Please retry in a few seconds.',
  code: 'conversation_locked',
  param: 'conversation',
};

/** Refuses to store more for a tenant. */
export function full(tenant: string | null, bytes: number, most: number): Refusal {
  const message = `The tenant "${tenant}" has ${bytes} bytes of responses and conversations stored, of at most ${most}: delete some of them, or send "store": false.`;
  return { status: 429, message, code: 'storage_limit_exceeded', param: null };
}

export function noConversation(id: string): Refusal {
  const message = `Conversation with id '${id.slice(0, 128)}' not found.`;
  return { status: 404, message, code: 'conversation_not_found', param: 'conversation' };
}

export function noPrevious(id: string): Refusal {
  const message = `Previous response with id '${id.slice(0, 128)}' not found.`;
  return { status: 400, message, code: 'previous_response_not_found', param: 'previous_response_id' };
}

/** Refuses to go on from a response that did not come to an end, or has not yet. */
export function notUsable(status: ResponseStatus): Refusal {
  const isOver = isFinal(status);
  return {
    status: 409,
    message: isOver
      ? `The previous response is ${status}, and cannot be gone on from; name one that is completed.`
      : `The previous response is ${status}; go on from it once it is completed.`,
    code: isOver ? 'previous_response_not_usable' : 'previous_response_not_ready',
    param: 'previous_response_id',
  };
}
