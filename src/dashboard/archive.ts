/**
 * One of the page's files. All are packed into one block of bytes, so that a runtime embeds one module whatever the
 * files are called: the length of the head in four bytes, the head as JSON, then the bytes of the files one after the
 * other.
 */

export interface PageFile {
  /** The file's name, with a hash of its content: `main-3F2A.js`. */
  name: string;
  contentType: string;
  /** The file's bytes; `brotli` has them compressed. */
  plain: Uint8Array;
  brotli: Uint8Array;
}

export interface Page {
  /** The page's version, which changes with every file. */
  version: string;
  /** The text of `index.html`, in which `{{root}}` stands for the path from the shown address to the page's root. */
  index: string;
  files: PageFile[];
}

interface Head extends Omit<Page, 'files'> {
  files: { name: string; contentType: string; lengths: [plain: number, brotli: number] }[];
}

const LENGTH_BYTES = 4;

export function packPage({ version, index, files }: Page): Uint8Array {
  const head: Head = {
    version,
    index,
    files: files.map(({ name, contentType, plain, brotli }) => ({
      name,
      contentType,
      lengths: [plain.length, brotli.length],
    })),
  };
  const text = new TextEncoder().encode(JSON.stringify(head));
  const parts = [
    new Uint8Array(LENGTH_BYTES),
    text,
    ...files.flatMap(({ plain, brotli }) => [plain, brotli]),
  ];
  new DataView(parts[0]!.buffer).setUint32(0, text.length);
  const packed = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    packed.set(part, at);
    at += part.length;
  }
  return packed;
}

/** Returns the page in `packed`; its files are views of those bytes, not copies. */
export function unpackPage(packed: ArrayBuffer): Page {
  let at = LENGTH_BYTES;
  const next = (length: number) => {
    at += length;
    return new Uint8Array(packed, at - length, length);
  };
  const { files, ...head }: Head = JSON.parse(
    new TextDecoder().decode(next(new DataView(packed).getUint32(0))),
  );
  return {
    ...head,
    files: files.map(({ name, contentType, lengths }) => ({
      name,
      contentType,
      plain: next(lengths[0]),
      brotli: next(lengths[1]),
    })),
  };
}
