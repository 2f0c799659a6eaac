/**
 * The commit of the version before, which this one is tested against: the last one whose state has the number 25. Once
 * versions are published, it is the newest of them.
 */
export const VERSION_BEFORE = '378f8bb82b098cfe949354d0d68a320db1fda6fe';
