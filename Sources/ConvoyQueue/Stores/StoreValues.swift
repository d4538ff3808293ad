import Convoy
import Foundation

/// The outcome of adding a job.
public struct JobAddition: Sendable, Hashable {
    /// What the store did with the job.
    public enum Outcome: String, Sendable, Hashable {
        /// The job was added.
        case added
        /// A job with the same id already exists.
        case alreadyThere
        /// An unfinished job with the same key exists, and ``Job/Uniqueness/Policy/keep`` retains the existing job.
        case kept
    }

    /// The id of the stored job: the new job, or the existing job that was retained.
    public var id: String
    /// What the store did with the job.
    public var outcome: Outcome

    /// Makes an addition.
    public init(id: String, outcome: Outcome) {
        self.id = id
        self.outcome = outcome
    }
}

/// A claim of a job: the job's id and the number of the claim.
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

/// The outcome of a claimed job.
public struct Settlement: Sendable, Hashable {
    /// The claim of the job.
    public var claim: Claim
    /// The verdict on the job.
    public var verdict: JobVerdict
    /// The attempt to record; nil when nothing was sent.
    public var attempt: JobAttempt?

    /// Makes a settlement.
    public init(_ claim: Claim, _ verdict: JobVerdict, attempt: JobAttempt? = nil) {
        self.claim = claim
        self.verdict = verdict
        self.attempt = attempt
    }
}

/// Which jobs an exchange claims.
public struct ClaimRequest: Sendable, Hashable {
    /// Some kinds of jobs, or all.
    public enum Kinds: Sendable, Hashable {
        /// Every kind.
        case all
        /// These kinds; none when the set is empty.
        case only(Set<String>)
        /// All kinds except these.
        case except(Set<String>)

        /// Whether a kind is one of these kinds.
        public func contains(_ kind: String) -> Bool {
            switch self {
            case .all: true
            case .only(let kinds): kinds.contains(kind)
            case .except(let kinds): !kinds.contains(kind)
            }
        }
    }

    /// The maximum number of jobs to claim.
    public var limit: Int
    /// How long the claims are valid unless the owner renews its lease.
    public var lease: Duration
    /// The kinds whose ready jobs are claimed, to be sent.
    public var kinds: Kinds
    /// The kinds whose waiting results are claimed, to be passed to a handler.
    public var answeredKinds: Kinds
    /// The maximum number of jobs to send that are claimed for each ``JobRequest/host``; nil, the default, for no limit.
    ///
    /// Without a limit, one unresponsive host could use up all claims. Relative URLs have no host and no limit.
    public var maxPerHost: Int?
    /// The maximum numbers of jobs to claim for single hosts, which replace ``maxPerHost`` for these hosts.
    ///
    /// A host with running jobs has a lower number; 0 allows no more jobs. The stores of this library ignore the
    /// numbers if ``maxPerHost`` is nil.
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
    package func room(of host: String) -> Int {
        host.isEmpty ? limit : min(limit, max(0, rooms[host] ?? maxPerHost ?? limit))
    }

    func rest(after jobs: [ClaimedJob]) -> ClaimRequest {
        var rest = self
        for job in jobs where job.result == nil {
            let host = job.job.request.host
            rest.rooms[host] = rest.room(of: host) - 1
        }
        rest.limit -= jobs.count
        return rest
    }
}

/// A claimed job, with everything that a queue needs to send the job.
public struct ClaimedJob: Sendable, Hashable {
    /// The claim, which is needed to settle the job.
    public var claim: Claim
    /// The job; a body that the store saved as a file is that file.
    public var job: Job
    /// The number of attempts since the job was added, or last retried as a dead letter.
    public var attemptCount: Int
    /// The number of consecutive lapsed claims before this one, ``JobLife/lapseCount``.
    public var lapseCount: Int
    /// The result that waits for a handler; nil for a job to send.
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

/// The result of ``Store/exchange(_:claiming:)``.
public struct Exchange: Sendable, Hashable {
    /// For each settlement, whether the store accepted it.
    ///
    /// False if the claim had ended: the job was cancelled or deleted, or another instance has found that the lease had
    /// ended.
    public var isSettled: [Bool]
    /// The jobs that were claimed.
    public var jobs: [ClaimedJob]
    /// The time until more work may be ready without a notification: a job's date, an expiry, the end of another
    /// owner's lease.
    ///
    /// Nil if the store knows no such moment, if it claimed as many jobs as requested, or if no claim was requested.
    public var next: Duration?

    /// Makes an exchange.
    public init(isSettled: [Bool], jobs: [ClaimedJob], next: Duration?) {
        self.isSettled = isSettled
        self.jobs = jobs
        self.next = next
    }
}

/// A selection of jobs.
///
/// A job is selected if it meets every condition that is not nil.
public struct JobSelection: Sendable, Hashable {
    /// The ids of the selected jobs; nil selects any id.
    public var ids: Set<String>?
    /// The states of the selected jobs; nil selects any state.
    public var states: Set<JobState>?
    /// The kind of the selected jobs; nil selects any kind.
    public var kind: String?
    /// A tag that the selected jobs have; nil selects jobs with any tags, or none.
    public var tag: String?
    /// The group of the selected jobs; nil selects jobs of any group, or of none.
    public var group: String?

    /// Makes a selection; by default every job.
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

    /// Whether a job in a given state meets all conditions of the selection.
    public func contains(_ job: Job, in state: JobState) -> Bool {
        ids?.contains(job.id) ?? true && states?.contains(state) ?? true && kind.map { $0 == job.kind } ?? true
            && tag.map { job.tags.contains($0) } ?? true && group.map { $0 == job.group } ?? true
    }
}
