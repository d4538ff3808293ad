// What goes between a queue and its store.
import Convoy
import Foundation

/// What became of a job that was to be added.
public struct JobAddition: Sendable, Hashable {
    /// Whether the job was added.
    public enum Outcome: String, Sendable, Hashable {
        /// It was added.
        case added
        /// A job with its id was there already.
        case alreadyThere
        /// An unfinished job with its key was there, and ``Job/Uniqueness/Policy/keep`` keeps that one.
        case kept
    }

    /// The id of the job that is there now: the new one, or the one that was kept.
    public var id: String
    /// Whether the job was added.
    public var outcome: Outcome

    /// Makes an addition.
    public init(id: String, outcome: Outcome) {
        self.id = id
        self.outcome = outcome
    }
}

/// A job that this owner has, for one time.
public struct Claim: Sendable, Hashable {
    /// The id of the job.
    public var id: String
    /// The number of the claim, ``JobLease/token``.
    public var token: Int64

    /// Makes a claim.
    public init(id: String, token: Int64) {
        self.id = id
        self.token = token
    }
}

/// What came of a claimed job.
public struct Settlement: Sendable, Hashable {
    /// The job, and the time it was claimed.
    public var claim: Claim
    /// What becomes of the job.
    public var verdict: JobVerdict
    /// The attempt to be noted; nil when nothing was sent.
    public var attempt: JobAttempt?

    /// Makes a settlement.
    public init(_ claim: Claim, _ verdict: JobVerdict, attempt: JobAttempt? = nil) {
        self.claim = claim
        self.verdict = verdict
        self.attempt = attempt
    }
}

/// Which jobs are claimed.
public struct ClaimRequest: Sendable, Hashable {
    /// Some kinds of jobs, or all.
    public enum Kinds: Sendable, Hashable {
        /// Every kind.
        case all
        /// These; none when the set is empty.
        case only(Set<String>)
        /// All but these.
        case except(Set<String>)

        /// Whether a kind is one of them.
        public func contains(_ kind: String) -> Bool {
            switch self {
            case .all: true
            case .only(let kinds): kinds.contains(kind)
            case .except(let kinds): !kinds.contains(kind)
            }
        }

        /// The kinds that are not among these.
        var others: Kinds {
            switch self {
            case .all: .only([])
            case .only(let kinds): .except(kinds)
            case .except(let kinds): .only(kinds)
            }
        }
    }

    /// How many at most.
    public var limit: Int
    /// How long the lease lasts unless it is renewed.
    public var lease: Duration
    /// The kinds that are sent.
    public var kinds: Kinds
    /// The kinds of which results that wait are handled.
    public var answeredKinds: Kinds
    /// How many jobs to be sent are claimed of one host at most, ``JobRequest/host``; nil, the default: any number.
    ///
    /// One host that does not answer would have all claims else. Relative URLs are of no host, and not bounded.
    public var maxPerHost: Int?
    /// In place of it for some hosts, of which jobs are under way; 0 for none.
    public var rooms: [String: Int] = [:]

    /// Makes a request for claims.
    public init(limit: Int, lease: Duration, kinds: Kinds = .all, answeredKinds: Kinds = .only([])) {
        self.limit = limit
        self.lease = lease
        self.kinds = kinds
        self.answeredKinds = answeredKinds
    }
}

extension ClaimRequest {
    /// How many jobs of a host may be claimed.
    func room(of host: String) -> Int {
        host.isEmpty ? limit : min(limit, max(0, rooms[host] ?? maxPerHost ?? limit))
    }
}

/// A job that was claimed, with what is needed to send it.
public struct ClaimedJob: Sendable, Hashable {
    /// The right to settle it.
    public var claim: Claim
    /// The job; a body that the store keeps in a file of its own is that file.
    public var job: Job
    /// How many attempts it has had, since it was added or retried.
    public var attemptCount: Int
    /// How many claims before this one have lapsed in a row, ``JobLife/lapseCount``.
    public var lapseCount: Int
    /// The result that waits for a handler; nil for a job that is to be sent.
    public var result: JobResult?

    /// Makes a claimed job.
    public init(claim: Claim, job: Job, attemptCount: Int, lapseCount: Int = 0, result: JobResult? = nil) {
        self.claim = claim
        self.job = job
        self.attemptCount = attemptCount
        self.lapseCount = lapseCount
        self.result = result
    }
}

/// What a turn of ``Store/exchange(_:claiming:)`` brought.
public struct Exchange: Sendable, Hashable {
    /// For each settlement whether it counts; false for a job that was lost, cancelled or is gone.
    public var isSettled: [Bool]
    /// The jobs that were claimed.
    public var jobs: [ClaimedJob]
    /// When there may be more without a change that is told: a job's time, an expiry, the end of another owner's lease.
    ///
    /// Nil when no such moment is known, and when as many were claimed as asked for.
    public var next: Duration?

    /// Makes an exchange.
    public init(isSettled: [Bool], jobs: [ClaimedJob], next: Duration?) {
        self.isSettled = isSettled
        self.jobs = jobs
        self.next = next
    }
}

/// Which jobs are meant: those for which everything that is set holds.
public struct JobSelection: Sendable, Hashable {
    /// Their ids; nil for any.
    public var ids: Set<String>?
    /// Their states; nil for any.
    public var states: Set<JobState>?
    /// Their kind; nil for any.
    public var kind: String?
    /// A tag that they have; nil for any.
    public var tag: String?
    /// Their group; nil for any.
    public var group: String?

    /// Makes a selection; every job by default.
    public init(
        ids: Set<String>? = nil, states: Set<JobState>? = nil, kind: String? = nil, tag: String? = nil,
        group: String? = nil
    ) {
        self.ids = ids
        self.states = states
        self.kind = kind
        self.tag = tag
        self.group = group
    }

    /// Every job.
    public static let all = JobSelection()

    /// Whether a job is meant.
    public func contains(_ job: Job, in state: JobState) -> Bool {
        ids?.contains(job.id) ?? true && states?.contains(state) ?? true && kind.map { $0 == job.kind } ?? true
            && tag.map { job.tags.contains($0) } ?? true && group.map { $0 == job.group } ?? true
    }
}
