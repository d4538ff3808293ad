#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    @testable import Convoy

    enum BareCurl {
        private final class Received {
            var bytes = Data()
        }

        /// - Returns: libcurl's code, or -1 when the request could not be started, and the body.
        static func get(_ url: URL) -> (code: Int32, body: Data) {
            guard CurlLibrary.defect == nil, let easy = curl_easy_init() else { return (-1, Data()) }
            defer { curl_easy_cleanup(easy) }
            guard let multi = curl_multi_init() else { return (-1, Data()) }
            defer { curl_multi_cleanup(multi) }
            let received = Received()
            convoy_set_pointer(easy, CURLOPT_URL, url.absoluteString)
            convoy_set_pointer(easy, CURLOPT_PROXY, "")
            convoy_set_number(easy, CURLOPT_NOSIGNAL, 1)
            convoy_set_number(easy, CURLOPT_TIMEOUT_MS, 3_000)
            var callbacks = convoy_callbacks()
            // Without it, libcurl would pass the header to `write`.
            callbacks.header = { _, size, count, _ in size * count }
            callbacks.write = { bytes, size, count, context in
                guard let context, let bytes else { return 0 }
                let received = Unmanaged<Received>.fromOpaque(context).takeUnretainedValue()
                received.bytes.append(
                    UnsafeRawBufferPointer(start: bytes, count: size * count).bindMemory(to: UInt8.self))
                return size * count
            }
            convoy_set_callbacks(easy, Unmanaged.passUnretained(received).toOpaque(), callbacks)
            guard curl_multi_add_handle(multi, easy) == 0 else { return (-1, Data()) }
            defer { curl_multi_remove_handle(multi, easy) }
            var code: Int32 = -1
            var running: Int32 = 1
            var ready: Int32 = 0
            while running > 0, curl_multi_perform(multi, &running) == 0 {
                if running > 0 { _ = convoy_multi_poll(multi, -1, 1_000, &ready) }
            }
            var remaining: Int32 = 0
            if let message = curl_multi_info_read(multi, &remaining), message.pointee.msg == 1 {
                code = message.pointee.data.result
            }
            return withExtendedLifetime(received) { (code, received.bytes) }
        }
    }
#endif
