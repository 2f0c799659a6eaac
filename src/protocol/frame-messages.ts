/**
 * Between extended peers a text message is one frame, or a JSON array of several that were
 * said in one go: a message costs either side more than what it says.
 */

/** A message that has so many characters takes no further frame. */
const MOST_CHARACTERS = 64 * 1024;
/** Frames of one message. */
export const MOST_FRAMES = 256;

/** The messages of some frames, in their order. @param frames as JSON */
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
