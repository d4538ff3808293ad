// Content types of files, by their names.

enum ContentType {
    static func of(fileName: String) -> String {
        guard let dot = fileName.lastIndex(of: ".") else { return unknown }
        return types[fileName[fileName.index(after: dot)...].lowercased()] ?? unknown
    }

    private static let unknown = "application/octet-stream"

    private static let types: [String: String] = [
        "7z": "application/x-7z-compressed", "aac": "audio/aac", "apng": "image/apng", "avif": "image/avif",
        "bin": "application/octet-stream", "bmp": "image/bmp", "bz2": "application/x-bzip2", "css": "text/css",
        "csv": "text/csv", "doc": "application/msword",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "eot": "application/vnd.ms-fontobject", "epub": "application/epub+zip", "flac": "audio/flac",
        "gif": "image/gif", "gz": "application/gzip", "heic": "image/heic", "heif": "image/heif", "htm": "text/html",
        "html": "text/html", "ico": "image/vnd.microsoft.icon", "ics": "text/calendar",
        "jar": "application/java-archive",
        "jpeg": "image/jpeg", "jpg": "image/jpeg", "js": "text/javascript", "json": "application/json",
        "jsonld": "application/ld+json", "m4a": "audio/mp4", "m4v": "video/x-m4v", "md": "text/markdown",
        "mid": "audio/midi", "mjs": "text/javascript", "mov": "video/quicktime", "mp3": "audio/mpeg",
        "mp4": "video/mp4", "mpeg": "video/mpeg", "mpg": "video/mpeg", "oga": "audio/ogg", "ogg": "audio/ogg",
        "ogv": "video/ogg", "opus": "audio/opus", "otf": "font/otf", "pdf": "application/pdf",
        "plist": "application/x-plist", "png": "image/png", "ppt": "application/vnd.ms-powerpoint",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "rar": "application/vnd.rar", "rtf": "application/rtf", "svg": "image/svg+xml", "tar": "application/x-tar",
        "tif": "image/tiff", "tiff": "image/tiff", "ttf": "font/ttf", "txt": "text/plain", "usdz": "model/vnd.usdz+zip",
        "wasm": "application/wasm", "wav": "audio/wav", "weba": "audio/webm", "webm": "video/webm",
        "webp": "image/webp", "woff": "font/woff", "woff2": "font/woff2", "xhtml": "application/xhtml+xml",
        "xls": "application/vnd.ms-excel",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xml": "application/xml",
        "yaml": "application/yaml", "yml": "application/yaml", "zip": "application/zip", "zst": "application/zstd",
    ]
}
