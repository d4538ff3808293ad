import Foundation

// The initializer returns nil if no thread can be created. A dispatch queue would wait instead.
struct PlainThread: @unchecked Sendable {
    // @unchecked: on Apple platforms the handle is a pointer. The pointer is only used for joining, by one thread.
    private final class Work {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private let thread: pthread_t

    init?(stackBytes: Int = 512 << 10, _ run: @escaping @Sendable () -> Void) {
        var attributes = pthread_attr_t()
        guard pthread_attr_init(&attributes) == 0 else { return nil }
        defer { pthread_attr_destroy(&attributes) }
        _ = pthread_attr_setstacksize(&attributes, stackBytes)
        let work = Unmanaged.passRetained(Work(run))
        #if canImport(Darwin)
            var thread: pthread_t?
            let problem = pthread_create(&thread, &attributes, { PlainThread.perform($0) }, work.toOpaque())
        #else
            var thread = pthread_t()
            let problem = pthread_create(&thread, &attributes, { PlainThread.perform($0) }, work.toOpaque())
        #endif
        guard problem == 0 else {
            work.release()
            return nil
        }
        #if canImport(Darwin)
            guard let thread else { return nil }
        #endif
        self.thread = thread
    }

    private static func perform(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        if let context { Unmanaged<Work>.fromOpaque(context).takeRetainedValue().run() }
        return nil
    }

    func join() { pthread_join(thread, nil) }
}
