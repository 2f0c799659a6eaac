/** A second of a tone: WAV, 16 kHz, 16 bits, mono. */
export function tone(hertz: number): Buffer {
  const rate = 16_000;
  const header = Buffer.alloc(44);
  header.write('RIFF');
  header.writeUInt32LE(36 + 2 * rate, 4);
  header.write('WAVEfmt ', 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(2 * rate, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36);
  header.writeUInt32LE(2 * rate, 40);
  const samples = Buffer.alloc(2 * rate);
  for (let at = 0; at < rate; at++)
    samples.writeInt16LE(Math.round(12_000 * Math.sin((2 * Math.PI * hertz * at) / rate)), 2 * at);
  return Buffer.concat([header, samples]);
}
