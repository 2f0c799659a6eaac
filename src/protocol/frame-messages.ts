/**
 * Between extended peers a text message is one frame, or a JSON array of several that were sent in one go: a message
 * costs either side more than its contents.
 */

/** A message takes no further frame once it has this many characters. */
const MOST_CHARACTERS = 64 * 1024;
/** The most frames in one message. */
export const MOST_FRAMES = 256;

/** Packs frames into messages, in their order. @param frames as JSON */
export function messagesOf(frames: readonly string[]): string[] {
  const messages: string[] = [];
  let together: string[] = [];
  let characters = 0;
  for (const frame of frames) {
    together.push(frame);
    characters += frame.length;
    if (characters < MOST_CHARACTERS && together.length < MOST_FRAMES) continue;
    messages.push(messageOf(together));
    together = [];
    characters = 0;
  }
  if (together.length > 0) messages.push(messageOf(together));
  return messages;
}

function messageOf(frames: readonly string[]): string {
  return frames.length === 1 ? frames[0]! : `[${frames.join()}]`;
}
