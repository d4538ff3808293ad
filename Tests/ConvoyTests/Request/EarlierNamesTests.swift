// Names that were public under another word go on working.
import Foundation
import Testing

@testable import Convoy

@Suite struct EarlierNamesTests {
    /// Called through a protocol: what uses a deprecated name is deprecated itself, and warns where it is called.
    private protocol Program {
        func modifiers() -> [RequestPolicies]
        func configuration() -> RequestManager.Configuration
        func policies() -> (RetryPolicy, RedirectPolicy, RetryBudget)
    }

    private struct Earlier: Program {
        @available(*, deprecated) func modifiers() -> [RequestPolicies] {
            [
                Request.stub("a").transferTimeout(.seconds(1)), Request.stub("a").maximumBodyBytes(2),
                Request.stub("a").maximumBytesPerSecond(3), Request.stub("a").accepting(.codes([404])),
                Request.stub("a").accepting(contentTypes: "image/*"),
            ].map(\.core.policies)
        }

        @available(*, deprecated) func configuration() -> RequestManager.Configuration {
            var configuration = RequestManager.Configuration()
            configuration.transferTimeout = .seconds(1)
            configuration.maximumBodyBytes = 2
            configuration.maximumBytesPerSecond = 3
            return configuration
        }

        @available(*, deprecated) func policies() -> (RetryPolicy, RedirectPolicy, RetryBudget) {
            var retries = RetryPolicy(maximumRetries: 1, maximumDelay: .seconds(2))
            retries.maximumRetryAfter = .seconds(3)
            return (retries, RedirectPolicy(maximumCount: 4), RetryBudget(maximumSaved: 50))
        }
    }

    private let program: any Program = Earlier()

    @Test func modifiersDoWhatTheirSuccessorsDo() {
        let policies = program.modifiers()
        #expect(policies[0].attemptTimeout == .some(.seconds(1)))
        #expect(policies[1].bodyLimit == 2)
        #expect(policies[2].maxBytesPerSecond == 3)
        #expect(policies[3].acceptableStatusCodes?(404) == true)
        #expect(policies[4].acceptableContentTypes != nil)
    }

    @Test func settingsAreThoseOfTheirSuccessors() {
        let configuration = program.configuration()
        #expect(configuration.attemptTimeout == .seconds(1))
        #expect(configuration.maxBodyBytes == 2)
        #expect(configuration.maxBytesPerSecond == 3)
    }

    @Test func initialisersTakeTheEarlierLabels() {
        let (retries, redirects, budget) = program.policies()
        #expect(retries.maxRetries == 1)
        #expect(retries.maxDelay == .seconds(2))
        #expect(retries.maxRetryAfter == .seconds(3))
        #expect(redirects.maxCount == 4)
        #expect(budget.maxSaved == 50)
    }
}
