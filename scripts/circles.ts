/** An import between files of two rooms, for more than types. Paths are from the repository's root. */
export interface RoomImport {
  from: string;
  to: string;
}

/** A module as dependency-cruiser reports it. */
interface Module {
  source: string;
  dependencies: { resolved: string; dependencyTypes: string[] }[];
}

/**
 * Returns the imports between rooms, the folders of `src/`. An import of types does not count: the contract by which
 * the objects ask each other (`asking/objects.ts`) names a type of each room, and the rooms take it in turn.
 */
export function roomImports(modules: readonly Module[]): RoomImport[] {
  return modules.flatMap(({ source, dependencies }) =>
    dependencies
      .filter(({ dependencyTypes }) => !dependencyTypes.includes('type-only'))
      .map(({ resolved }) => ({ from: source, to: resolved }))
      .filter(({ from, to }) => roomOf(from) && roomOf(to) && roomOf(from) !== roomOf(to)),
  );
}

/**
 * Returns the shortest circle of each room that imports itself through others, one import for each step. A circle is
 * reported once, for the first of its rooms.
 */
export function circlesOfRooms(imports: readonly RoomImport[]): RoomImport[][] {
  const rooms = [...new Set(imports.map(({ from }) => roomOf(from)!))].sort();
  const told = new Set<string>();
  return rooms.flatMap((room) => {
    const circle = told.has(room) ? null : wayBack(room, imports);
    if (!circle) return [];
    for (const { from } of circle) told.add(roomOf(from)!);
    return [circle];
  });
}

/** Finds the shortest circle from a room to itself, breadth first. */
function wayBack(room: string, imports: readonly RoomImport[]): RoomImport[] | null {
  const seen = new Set<string>();
  let ways: RoomImport[][] = [[]];
  while (ways.length > 0) {
    ways = ways.flatMap((way) => {
      const at = way.length === 0 ? room : roomOf(way.at(-1)!.to);
      return imports
        .filter(({ from, to }) => roomOf(from) === at && !seen.has(roomOf(to)!) && seen.add(roomOf(to)!))
        .map((step) => [...way, step]);
    });
    const circle = ways.find((way) => roomOf(way.at(-1)!.to) === room);
    if (circle) return circle;
  }
  return null;
}

function roomOf(path: string): string | undefined {
  return /^src\/([^/]+)\//.exec(path)?.[1];
}
