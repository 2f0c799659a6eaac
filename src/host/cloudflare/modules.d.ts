/** A module of data, as the runtime embeds it. */
declare module '*.bin' {
  const bytes: ArrayBuffer;
  export default bytes;
}
