import { freeBytes } from '../../durable/free-bytes.ts';
import type { ObjectHost } from '../../durable/host.ts';
import type { FileBucket } from '../../files/bucket-file.ts';
import { FileObject as Hosted } from '../../files/object.ts';
import { type ObjectBindings, objectsOf } from './objects.ts';
import { shellOf } from './shell.ts';

interface Env extends ObjectBindings {
  /** The bucket for the bytes of files; left out: all bytes are stored in rows. */
  FILES?: FileBucket;
}

/** The Durable Object that holds the bytes of a queue id's files. */
export class FileObject extends shellOf({
  hosted: Hosted,
  make: (host: ObjectHost, env: Env) => new Hosted(host, objectsOf(env), env.FILES ?? null),
  namespace: ({ FILE }) => FILE,
}) {
  /** Answers the content of `https://files/ID`: a call by RPC may not return a stream of any kind. */
  override async fetch(request: Request): Promise<Response> {
    this.host.eventCame();
    return await this.hosted.content(new URL(request.url).pathname.slice(1));
  }

  /** Stores a piece and frees its bytes: it came as a copy, and nobody reads it any more. */
  async put(id: string, number: number, piece: Uint8Array): Promise<boolean> {
    this.host.eventCame();
    const isTaken = await this.hosted.put(id, number, piece);
    freeBytes(piece);
    return isTaken;
  }
}
