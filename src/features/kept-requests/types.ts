/** A record of one request and its answer, as the object of kept requests stores it. */
export interface KeptRecord {
  /** The id of the request's job: there is one record for each. A submission that was refused has one of its own. */
  job_id: string;
  /** The id by which the caller finds the request again. */
  request_id: string;
  /** The id in the answer; null: it has none. */
  response_id: string | null;
  tenant: string | null;
  token_name: string | null;
  /** When the request came and when its answer was over, epoch ms. */
  started_at: number;
  ended_at: number;
  /** The line of JSON in the names of OpenTelemetry's conventions for generative AI (record.ts). */
  line: string;
}

/** The records of one hour of UTC. */
export interface KeptHour {
  /** The beginning of the hour, epoch ms. */
  hour: number;
  records: number;
  bytes: number;
}

export interface KeptSummary {
  hours: KeptHour[];
  records: number;
  bytes: number;
}

/** The records that a reader asks for, in the order in which they were kept. */
export interface KeptWanted {
  /** Ended then or later, and before, epoch ms; null: no bound. */
  since: number | null;
  until: number | null;
  /** Only those of this tenant; null: of all. */
  tenant: string | null;
  /** Only those behind this place, which the page before returned; 0: from the first. */
  after: number;
}

export interface KeptPage {
  lines: string[];
  /** The place behind the last line; null: there are no more. */
  next: number | null;
}

/** The records to erase: all of a tenant, or those with this id of a job, a request or a response. */
export type Erased = { tenant: string } | { id: string };
