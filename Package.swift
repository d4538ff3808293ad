// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Convoy",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "Convoy", targets: ["Convoy"]),
        .library(name: "ConvoyTesting", targets: ["ConvoyTesting"]),
        .library(name: "ConvoyQueue", targets: ["ConvoyQueue"]),
        .library(name: "ConvoyPostgres", targets: ["ConvoyPostgres"]),
        .library(name: "ConvoyCache", targets: ["ConvoyCache"]),
        .executable(name: "convoy", targets: ["ConvoyCommand"]),
    ],
    targets: [
        .target(
            name: "Convoy",
            dependencies: [.target(name: "CLibcurl", condition: .when(platforms: [.linux]))]),
        // The system's own library by its file name, so that no development package has to be installed.
        .target(
            name: "CLibcurl",
            linkerSettings: [.linkedLibrary(":libcurl.so.4", .when(platforms: [.linux]))]),
        .target(name: "ConvoyTesting", dependencies: ["Convoy"]),
        // Requests that outlive the process: a durable queue on a database. Nothing in Convoy knows it.
        .target(name: "ConvoyQueue", dependencies: ["Convoy", "ConvoySQLite"]),
        // The queue's store on a PostgreSQL server.
        .target(name: "ConvoyPostgres", dependencies: ["Convoy", "ConvoyQueue", "CPostgres"]),
        // A cache of responses: RFC 9111. Convoy declares the seam and knows no more.
        .target(name: "ConvoyCache", dependencies: ["Convoy", "ConvoySQLite"]),
        // SQLite as queue and cache use it.
        .target(
            name: "ConvoySQLite",
            dependencies: ["Convoy", .target(name: "CSQLite", condition: .when(platforms: [.linux]))]),
        // PostgreSQL's client library is opened at run time: it need not be installed.
        .target(name: "CPostgres"),
        // By its file name too: the system's SQLite, without its headers.
        .target(
            name: "CSQLite",
            linkerSettings: [.linkedLibrary(":libsqlite3.so.0", .when(platforms: [.linux]))]),
        // Files of requests, `.http`: read, planned and filled in, without sending anything.
        .target(name: "ConvoyHTTPFile", dependencies: ["Convoy"]),
        .executableTarget(
            name: "ConvoyCommand",
            dependencies: [
                "Convoy", "ConvoyCache", "ConvoyHTTPFile", "ConvoyPostgres", "ConvoyQueue", "ConvoyTesting",
            ],
            // The page of a report is part of the program, which needs no other file.
            resources: ["html", "css", "js"].map { .embedInCode("Report/Page/page.\($0)") }),
        // The program of the README, as it stands there.
        .executableTarget(name: "ReadmeProgram", dependencies: ["Convoy"], path: "Tests/ReadmeProgram"),
        .target(name: "TestTurns", path: "Tests/TestTurns"),
        // What test targets share: waiting, child processes, random numbers, directories.
        .target(name: "TestSupport", dependencies: ["TestTurns"], path: "Tests/TestSupport"),
        .testTarget(name: "ConvoyTests", dependencies: ["Convoy", "ConvoyTesting", "TestSupport"]),
        // By public API only, in a module of the main actor's, as new programs are.
        .testTarget(
            name: "ConvoyExampleTests", dependencies: ["Convoy", "ConvoyTesting"],
            swiftSettings: [.defaultIsolation(MainActor.self)]),
        .testTarget(name: "ConvoyTestingTests", dependencies: ["Convoy", "ConvoyTesting", "TestSupport"]),
        .testTarget(
            name: "ConvoyQueueTests",
            dependencies: [
                "ConvoyPostgres", "ConvoyQueue", "ConvoySQLite", "ConvoyTesting", "TestSupport", "QueueProgram",
                "QueueWorker",
            ]),
        // What tests of a queue start as processes of their own.
        .executableTarget(
            name: "QueueProgram", dependencies: ["Convoy", "ConvoyPostgres", "ConvoyQueue"], path: "Tests/QueueProgram"),
        .executableTarget(
            name: "QueueWorker", dependencies: ["ConvoyPostgres", "ConvoyQueue"], path: "Tests/QueueWorker"),
        // The client under test of the public suite of caches, by its protocol.
        .executableTarget(name: "CacheProgram", dependencies: ["Convoy", "ConvoyCache"], path: "Tests/CacheProgram"),
        // What tests of a cache kill.
        .executableTarget(
            name: "CacheWorker", dependencies: ["Convoy", "ConvoyCache", "ConvoyTesting"], path: "Tests/CacheWorker"),
        .testTarget(
            name: "ConvoyCacheTests",
            dependencies: ["ConvoyCache", "ConvoySQLite", "ConvoyTesting", "TestSupport", "CacheWorker"]),
        .testTarget(name: "ConvoyHTTPFileTests", dependencies: ["Convoy", "ConvoyHTTPFile", "TestSupport"]),
        .testTarget(
            name: "ConvoyCommandTests",
            dependencies: ["ConvoyCache", "ConvoyCommand", "ConvoyQueue", "ConvoyTesting", "TestSupport"]),
    ],
    swiftLanguageModes: [.v6]
)
