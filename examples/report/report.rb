# Reports a dead letter to Lazaret: Ruby 3, standard library only.
require "json"
require "net/http"

URL = ENV.fetch("LAZARET_URL", "http://127.0.0.1:7070")
TOKEN = ENV["LAZARET_TOKEN"] # role producer; not needed until the first token exists
RETRIED = [408, 429, 502, 503, 504].freeze

# Returns the server's answer. Safe to repeat: a report that was stored before is a duplicate.
def report(entry, source: "report")
  address = URI("#{URL}/api/v1/dead-letters?source=#{source}")
  headers = { "Content-Type" => "application/json" }
  headers["Authorization"] = "Bearer #{TOKEN}" if TOKEN
  [1, 2, 4, 8, 16, nil].each do |pause_s|
    begin
      http = Net::HTTP.new(address.host, address.port)
      http.use_ssl = address.scheme == "https"
      http.open_timeout = http.read_timeout = 30
      http.max_retries = 0
      response = http.post(address.request_uri, JSON.generate(entry), headers)
      return response.body if response.is_a?(Net::HTTPSuccess)
      unless pause_s && RETRIED.include?(response.code.to_i)
        abort "report refused: #{response.code} #{response.body}"
      end
      pause_s = [pause_s, response["Retry-After"].to_i].max
    rescue SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::SSL::SSLError
      raise unless pause_s # connection refused, reset or timed out
    end
    sleep pause_s
  end
end

def handle(event)
  raise ArgumentError, "invoice #{event[:payload][:invoice]} has no currency"
end

event = { eventId: "evt-ruby-1", pattern: "invoice.created", payload: { invoice: 4711 } }
begin
  handle(event)
rescue StandardError => e # after the last retry of your own
  puts report({
    eventId: event[:eventId],
    subscriberId: "billing",
    originalEvent: event,
    error: { type: e.class.name, message: e.message, stackTrace: e.full_message(highlight: false, order: :top) },
    retryCount: 3,
    maxRetries: 3,
  })
end
