# A client of the public API, written from proto/ingot.proto alone, with checks that the server does what the file says.
#
#   ruby tests/cluster/client.rb ENDPOINT
#
# One line for each check, "ok - NAME" or "not ok - NAME: WHY"; exits with 1 if a check failed.  It needs protoc and
# the Debian packages ruby, ruby-ffi-rzmq and ruby-google-protobuf, and a server without other clients meanwhile, with
# one model that has a chat template.
require 'digest'
require 'ffi-rzmq'
require 'securerandom'
require 'tmpdir'

# google-protobuf cannot load a .proto, so protoc translates it first.  Two things to know of Debian's 3.21: it packs no
# repeated field of a proto2 file (receivers take both forms), and has_x? returns 0 for true, which Ruby takes as true.
Dir.mktmpdir do |folder|
  proto = File.expand_path('../../proto', __dir__)
  system('protoc', "--proto_path=#{proto}", "--ruby_out=#{folder}", 'ingot.proto', exception: true)
  require "#{folder}/ingot_pb.rb"
end
include Ingot

LIMIT_S = 300 # for one message; only a server that hangs is that slow
HEADER = 'a4CCS<L<'
TYPES = Type.constants.to_h { |name| [Type.const_get(name), name.to_s] }
CLASSES = TYPES.transform_values do |name| # DELTA -> Delta, STATS_REPLY -> StatsReply
  name == 'TYPE_NONE' ? nil : Ingot.const_get(name.split('_').map(&:capitalize).join)
end
REPLIES = { Hello => Welcome, Cancel => CancelReply, Tokenize => Tokens, Detokenize => Text, ApplyTemplate => Text,
            Models => ModelList, Stats => StatsReply, Ping => Pong, Drain => Draining }.freeze
UNKNOWN_FIELD = "\x98\x06\x01".b # field 99, a varint, value 1

class Failure < StandardError; end

def expect(condition, why)
  raise Failure, why unless condition
end

def same(got, wanted, what)
  expect(got == wanted, "#{what}: #{got.inspect} instead of #{wanted.inspect}")
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def new_id
  SecureRandom.hex(8)
end

# What came for one Generate.  ids, texts, logprobs and tops have an element for each sample.
class Answer
  attr_reader :accepted, :ids, :texts, :logprobs, :tops, :last

  def initialize
    @accepted = @last = nil
    @seq = Hash.new(0)
    @ids, @logprobs, @tops = Array.new(3) { Hash.new { |hash, sample| hash[sample] = [] } }
    @texts = Hash.new { |hash, sample| hash[sample] = ''.b }
  end

  def add(message)
    case message
    when Accepted
      expect(@accepted.nil?, 'a second Accepted')
      @accepted = message
    when Delta
      expect(@accepted, 'a Delta before Accepted')
      same(message.seq, @seq[message.sample], 'Delta.seq')
      @seq[message.sample] += 1
      @ids[message.sample] += message.id.to_a
      @texts[message.sample] << message.text
      @logprobs[message.sample] += message.logprob.to_a
      @tops[message.sample] += message.top.map { |top| top.entry.to_a }
    else
      expect(@accepted, "#{message.class} before Accepted") unless message.is_a?(Rejected)
      expect(@accepted.nil?, 'Rejected after Accepted') if message.is_a?(Rejected)
      @last = message
    end
  end

  # Checks that the answer is complete and that the counts of Finish fit it.
  def finished
    expect(@last.is_a?(Finish), "ended by #{@last.inspect}")
    same(@last.sample.map(&:sample), (0...@last.sample.size).to_a, 'Finish.sample')
    @last.sample.each do |one|
      same(one.completion_tokens, @ids[one.sample].size, 'SampleEnd.completion_tokens')
      same(one.stop_id, @ids[one.sample].last, 'SampleEnd.stop_id') if one.reason == :EOS
      expect(@texts[one.sample].dup.force_encoding('UTF-8').valid_encoding?, 'the text is not UTF-8')
    end
    same(@last.completion_tokens, @last.sample.sum(&:completion_tokens), 'Finish.completion_tokens')
    same(@last.prompt_tokens, @accepted.prompt_tokens, 'Finish.prompt_tokens')
    self
  end

  def reasons
    @last.sample.map(&:reason)
  end
end

# A connection.
class Client
  attr_reader :welcome, :unasked

  def initialize(context, endpoint, tenant: nil, token: nil, hello: true)
    @socket = context.socket(ZMQ::DEALER)
    @socket.setsockopt(ZMQ::LINGER, 0)
    expect(ZMQ::Util.resultcode_ok?(@socket.connect(endpoint)), "connect: #{ZMQ::Util.error_string}")
    @inbox = []
    @unasked = 0 # Pongs that no Ping asked for
    @token = token
    @welcome = say_hello(tenant) if hello
  end

  def close
    @socket.close
  end

  def say_hello(tenant = nil)
    reply = ask(Hello.new({ major_min: 1, major_max: 1, client: 'client.rb', tenant: tenant, token: @token }.compact))
    expect(reply.is_a?(Welcome), "Hello got #{reply.inspect}")
    reply
  end

  def send_bytes(type, body, magic: 'INGT', major: 1, flags: 0)
    frame = [magic, major, 0, type, flags].pack(HEADER) + body.b
    expect(ZMQ::Util.resultcode_ok?(@socket.send_string(frame)), "send: #{ZMQ::Util.error_string}")
  end

  def post(message)
    send_bytes(CLASSES.key(message.class), message.class.encode(message))
  end

  # The next message, or nil if there is none in time.  Leaves out what clients ignore: messages of unknown types, and
  # Pongs without a Ping.
  def receive(limit_s)
    deadline = now + limit_s
    loop do
      @socket.setsockopt(ZMQ::RCVTIMEO, [((deadline - now) * 1000).ceil, 0].max)
      frame = String.new
      unless ZMQ::Util.resultcode_ok?(@socket.recv_string(frame))
        next if ZMQ::Util.errno == ZMQ::EINTR
        same(ZMQ::Util.errno, ZMQ::EAGAIN, 'errno of receive')
        return nil
      end
      expect(!@socket.more_parts?, 'a message of several parts')
      magic, major, _minor, type, flags = frame.unpack(HEADER)
      same([magic, major, flags], ['INGT', 1, 0], 'header')
      next unless CLASSES[type]
      message = CLASSES[type].decode(frame.byteslice(12..))
      return message unless message.is_a?(Pong) && !message.has_request_id?
      @unasked += 1
    end
  end

  # The first message that the block accepts; the others wait for their turn.
  def await(what)
    found = @inbox.index { |message| yield message }
    return @inbox.delete_at(found) if found
    loop do
      message = receive(LIMIT_S)
      expect(message, "no #{what} in #{LIMIT_S} s; waiting: #{@inbox.inspect}")
      return message if yield message
      @inbox << message
    end
  end

  # Sends a request that is answered by one message, and returns that.
  def ask(request)
    post(request)
    await(REPLIES[request.class].name) do |m|
      next lone_error?(m) || m.is_a?(Welcome) if request.is_a?(Hello)
      [REPLIES[request.class], Error].include?(m.class) && m.request_id == request.request_id
    end
  end

  # An Error that belongs to no request.
  def lone_error
    await('Error') { |m| lone_error?(m) }
  end

  def lone_error?(message)
    message.is_a?(Error) && !message.has_request_id?
  end

  # Everything of a Generate up to its end.
  def answer(request_id)
    answer = Answer.new
    until answer.last
      answer.add(await("end of #{request_id}") do |m|
        [Accepted, Delta, Finish, Error, Rejected].include?(m.class) && m.request_id == request_id
      end)
    end
    answer
  end

  def generate(request)
    post(request)
    answer(request.request_id)
  end
end

# A greedy request of a fixed length: always the same answer.
def greedy(**fields)
  sampling = { temperature: 0, ignore_eos: true }.merge(fields.delete(:sampling) || {})
  Generate.new({ request_id: new_id, max_tokens: 24, sampling: Sampling.new(sampling) }.merge(fields))
end

# The same request under a new id.
def again(request, **fields)
  copy = Generate.decode(Generate.encode(request))
  { request_id: new_id }.merge(fields).each { |name, value| copy[name.to_s] = value }
  copy
end

def refused(reply, type, code, field)
  expect(reply.is_a?(type), "#{reply.inspect} instead of #{type}")
  same([reply.code, reply.field], [code, field], 'code and field')
  expect(!reply.detail.empty?, 'no detail')
end

def sample_seed(seed, sample)
  return seed if sample.zero?
  mask = (1 << 64) - 1
  z = (seed + sample * 0x9e3779b97f4a7c15) & mask
  z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & mask
  z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & mask
  z ^ (z >> 31)
end

# For what has to come before something else happens, a Cancel before the last token: the block tells whether it did.
# It may come too late, but not every time.
def in_time(tries = 50)
  tries.times { return if yield }
  raise Failure, "#{tries} attempts, and always too late"
end

$failed = 0
def check(name)
  yield
  puts "ok - #{name}"
rescue Failure, StandardError => error
  $failed += 1
  where = error.is_a?(Failure) ? '' : " (#{error.class}, #{error.backtrace&.first})"
  puts "not ok - #{name}: #{error.message.tr("\n", ' ')}#{where}"
end

abort 'usage: client.rb ENDPOINT' unless ARGV.size == 1
$stdout.sync = true
endpoint = ARGV[0]
context = ZMQ::Context.new
tenant = SecureRandom.random_bytes(16)
own = { tenant: tenant, token: SecureRandom.random_bytes(32) }
one = Client.new(context, endpoint, **own)            # two connections of an owner,
two = Client.new(context, endpoint, **own)
thief = Client.new(context, endpoint, tenant: tenant, token: SecureRandom.random_bytes(32)) # the name alone
other = Client.new(context, endpoint)                 # one of another tenant,
idle = Client.new(context, endpoint)                  # one that sends nothing until the end

# Until a worker group has connected, requests are rejected and the sizes in ModelInfo and Limits are 0.
deadline = now + LIMIT_S
until one.ask(Stats.new(request_id: new_id)).ready
  abort "no worker group in #{LIMIT_S} s" if now > deadline
  sleep 0.1
end
TEXT = 'The quick brown fox jumps over the lazy dog.'
CHAT = Chat.new(turn: [Turn.new(role: 'user', content: 'Say hello.')], clock_s: 1_700_000_000, zone_s: 3600)
prompt = greedy(text: TEXT)
reference = one.generate(prompt).finished # many checks compare with this answer
info = nil

check 'Hello gets Welcome, a second Hello too' do
  welcome = one.say_hello(tenant)
  [one.welcome, welcome].each { |w| same([w.major, w.tenant], [1, tenant], 'major and tenant') }
  same(welcome.epoch, one.welcome.epoch, 'epoch')
  expect((1..64).cover?(other.welcome.tenant.bytesize), 'no tenant made by the server')
  expect(other.welcome.tenant != idle.welcome.tenant, 'two connections were given the same tenant')
  same(welcome.limits.max_prompt_tokens, welcome.models[0].max_ctx - 1, 'max_prompt_tokens')
  expect(welcome.limits.max_message_bytes.positive? && welcome.limits.heartbeat_ms.positive?, 'a limit of 0')
  one.post(Hello.new(major_min: 1, major_max: 1, tenant: 'another'))
  same(one.lone_error.field, 'tenant', 'field of a second Hello with another tenant')
  two.post(Hello.new(major_min: 2, major_max: 3))
  same(two.lone_error.code, :UNSUPPORTED, 'code for a client that does not speak version 1')
end

check 'Models' do
  models = one.ask(Models.new(request_id: new_id)).model
  same(models.size, 1, 'models')
  info = models[0]
  expect(info.vocab.positive? && info.max_ctx.positive? && info.world.positive?, "sizes: #{info.inspect}")
  expect(info.chat, 'no chat template')
  same(info.text_digest.bytesize, 32, 'bytes of text_digest')
  expect(%w[own told pending none].include?(info.weights_from), "weights_from: #{info.weights_from}")
  same(info.has_weights_digest? ? 32 : 0, info.weights_digest.bytesize, 'bytes of weights_digest')
end

check 'Tokenize and Detokenize' do
  text = "Grüße, 世界 \u{1f600}\0 end.".b
  ids = one.ask(Tokenize.new(request_id: 'same', text: text, add_special: false)).id
  expect(ids.size.positive?, 'no ids')
  same(one.ask(Detokenize.new(request_id: 'same', id: ids.to_a)).text, text, 'text')
end

check 'ApplyTemplate, and Generate from that text' do
  text = one.ask(ApplyTemplate.new(request_id: new_id, chat: CHAT)).text
  expect(text.include?('Say hello.'), "text: #{text.inspect}")
  by_text = one.generate(greedy(text: text, add_special: false, want_prompt_ids: true)).finished
  by_chat = one.generate(greedy(chat: CHAT, want_prompt_ids: true)).finished
  same(by_text.accepted.prompt_id.to_a, by_chat.accepted.prompt_id.to_a, 'prompt ids')
  same(by_text.ids, by_chat.ids, 'ids')
end

check 'Generate by text' do
  same([reference.reasons, reference.ids.size, reference.ids[0].size], [[:LENGTH], 1, 24], 'reasons, samples, ids')
  expect(!reference.accepted.attached, 'attached')
  same([reference.accepted.max_tokens, reference.accepted.stop_token_id.to_a], [24, []], 'max_tokens, stop ids')
  sampling = reference.accepted.sampling
  same([sampling.temperature, sampling.has_top_p? && sampling.top_p], [0.0, 1.0], 'temperature and top_p in force')
  same(sampling.seed, reference.accepted.seed, 'seed')
  same(reference.texts[0], one.ask(Detokenize.new(request_id: new_id, id: reference.ids[0], skip_special: true)).text,
       'text')
end

check 'Generate by tokens' do
  ids = one.ask(Tokenize.new(request_id: new_id, text: TEXT)).id.to_a
  answer = one.generate(greedy(tokens: TokenIds.new(id: ids), want_prompt_ids: true)).finished
  same(answer.accepted.prompt_id.to_a, ids, 'prompt ids')
  same(answer.accepted.prompt_digest, Digest::SHA256.digest(ids.pack('l<*')), 'prompt_digest')
  same([answer.ids, answer.texts], [reference.ids, reference.texts], 'ids and text')
end

check 'Generate by chat' do
  answer = one.generate(greedy(chat: CHAT, sampling: { ignore_eos: false })).finished
  expect([[:LENGTH], [:EOS]].include?(answer.reasons), "reasons: #{answer.reasons}")
  same([answer.accepted.clock_s, answer.accepted.zone_s], [1_700_000_000, 3600], 'clock_s and zone_s')
  expect(answer.accepted.stop_token_id.size.positive?, 'no end-of-sequence ids in force')
end

check 'the same greedy request again gives the same ids' do
  same(one.generate(again(prompt)).finished.ids, reference.ids, 'ids')
end

check 'n = 2 with a seed' do
  seed = 0xfedcba9876543210
  request = greedy(text: TEXT, n: 2, sampling: { temperature: 1, seed: seed })
  first = one.generate(request).finished
  same([first.accepted.seed, first.ids.keys.sort], [seed, [0, 1]], 'seed and samples')
  expect(first.ids[0] != first.ids[1], 'both samples are the same')
  same(one.generate(again(request)).finished.ids, first.ids, 'ids of the repeated request')
  2.times do |i|
    alone = again(request, n: 1)
    alone.sampling.seed = sample_seed(seed, i)
    same(one.generate(alone).finished.ids[0], first.ids[i], "ids of sample #{i} as a request of its own")
  end
end

check 'stop string, stop token' do
  text = reference.texts[0].dup.force_encoding('UTF-8')
  stop = text[text.size / 2, 2]
  before = text[0...text.index(stop)]
  [[false, before], [true, before + stop]].each do |include_stop, wanted|
    answer = one.generate(greedy(text: TEXT, stop: [stop.b], include_stop: include_stop)).finished
    same([answer.reasons, answer.last.sample[0].matched_stop], [[:STOP], stop.b], 'reason and stop string')
    same(answer.texts[0], wanted.b, 'text')
    same(answer.ids[0], reference.ids[0].first(answer.ids[0].size), 'ids')
  end
  id = reference.ids[0][12]
  answer = one.generate(greedy(text: TEXT, sampling: { stop_token_id: [id] })).finished
  same([answer.reasons, answer.accepted.stop_token_id.to_a], [[:STOP], [id]], 'reason and stop ids in force')
  same(answer.ids[0], reference.ids[0][0..reference.ids[0].index(id)], 'ids')
end

check 'logprobs' do
  answer = one.generate(greedy(text: TEXT, sampling: { top_logprobs: 3 })).finished
  same(answer.ids, reference.ids, 'ids')
  same([answer.logprobs[0].size, answer.tops[0].map(&:size)], [24, [3] * 24], 'logprobs')
  answer.logprobs[0].zip(answer.tops[0]) do |logprob, top|
    expect(logprob <= 0, "logprob #{logprob}")
    same(top.map(&:logprob), top.map(&:logprob).sort.reverse, 'order of top')
    same(logprob, top[0].logprob, 'logprob of the greedy choice')
  end
  same(one.generate(greedy(text: TEXT, sampling: { logprobs: true })).logprobs, answer.logprobs, 'logprobs without top')
end

# As long as the context allows.
def long(prompt, info, reference)
  again(prompt, max_tokens: info.max_ctx - reference.accepted.prompt_tokens)
end

check 'Cancel' do
  in_time do
    request = long(prompt, info, reference)
    cancel = Cancel.new(request_id: request.request_id)
    one.post(request)
    reply = one.ask(cancel)
    answer = one.answer(request.request_id).finished
    wanted = { STOPPED: :REASON_CANCELLED, ENDED_BEFORE: :LENGTH }[reply.result]
    same(answer.reasons, [wanted], "reason after #{reply.result}")
    same(other.ask(cancel).result, :UNKNOWN, "result for another tenant's request")
    same(thief.ask(cancel).result, :UNKNOWN, 'result for a request of the tenant with another token')
    reply.result == :STOPPED && one.ask(cancel).result == :ENDED_BEFORE
  end
  same(one.ask(Cancel.new(request_id: new_id)).result, :UNKNOWN, 'result for an unknown id')
end

check 'attach to an ended request' do
  in_time do
    request = again(prompt)
    first = one.generate(request).finished
    second = two.generate(request).finished
    same([second.ids, second.texts], [first.ids, first.texts], 'ids and text')
    same(second.accepted.seed, first.accepted.seed, 'seed') if second.accepted.attached
    second.accepted.attached
  end
end

check 'attach to a running request' do
  in_time do
    request = long(prompt, info, reference)
    one.post(request)
    one.await('Accepted') { |m| m.is_a?(Accepted) && m.request_id == request.request_id }
    answer = two.generate(request).finished
    same([answer.ids[0].first(24), answer.ids[0].size], [reference.ids[0], request.max_tokens], 'ids')
    last = one.await('end') { |m| [Finish, Error].include?(m.class) && m.request_id == request.request_id }
    same(last.code, :PEER, 'code for the first connection') if last.is_a?(Error)
    answer.accepted.attached && last.is_a?(Error)
  end
end

check 'another tenant cannot attach' do
  request = again(prompt)
  one.generate(request).finished
  expect(!other.generate(request).finished.accepted.attached, 'attached')
  expect(!thief.generate(request).finished.accepted.attached, 'attached with another token')
  refused(other.generate(again(request, request_id: request.request_id, tenant: tenant)).last, Rejected, :RANGE,
          'tenant')
end

check 'a request id that exists is rejected with other bytes' do
  in_time do
    request = again(prompt)
    one.generate(request).finished
    answer = two.generate(again(request, request_id: request.request_id, max_tokens: 23))
    next unless answer.last.is_a?(Rejected)
    same(answer.last.field, 'request_id', 'field')
    two.generate(request).finished.accepted.attached # the existing request is not affected
  end
end

check 'bad values are refused by the path of their field' do
  bad_turn = Chat.new(turn: [Turn.new(role: 'user', content: 'a'), Turn.new(role: '', content: 'b')])
  { 'max_tokens' => { text: TEXT, max_tokens: 0 }, 'n' => { text: TEXT, n: 17 },
    'tokens.id' => { tokens: TokenIds.new(id: [info.vocab]) }, 'chat.turn.role' => { chat: bad_turn },
    'sampling.top_p' => { text: TEXT, sampling: { top_p: 1.5 } },
    'sampling.temperature' => { text: TEXT, sampling: { temperature: Float::NAN } },
    'sampling.logit_bias.id' => { text: TEXT, sampling: { logit_bias: [LogitBias.new(id: -1, bias: 1)] } }
  }.each { |field, fields| refused(one.generate(greedy(**fields)).last, Rejected, :RANGE, field) }
  answer = one.generate(greedy(text: TEXT, model: 'no such model'))
  refused(answer.last, Rejected, :NOT_FOUND, 'model')
  refused(one.ask(Detokenize.new(request_id: new_id, id: [-1])), Error, :RANGE, 'id')
end

check 'unknown fields are refused by their number' do
  unknown = Generate.decode(Generate.encode(again(prompt)) + UNKNOWN_FIELD)
  refused(one.generate(unknown).last, Rejected, :UNSUPPORTED, '99')
  nested = again(prompt)
  nested.sampling = Sampling.decode(UNKNOWN_FIELD)
  refused(one.generate(nested).last, Rejected, :UNSUPPORTED, 'sampling.99')
  refused(one.ask(Ping.decode(Ping.encode(Ping.new(request_id: new_id)) + UNKNOWN_FIELD)), Error, :UNSUPPORTED, '99')
end

check 'bytes that are no message get an Error' do
  { 'magic' => [Type::PING, '', { magic: 'TGNI' }], 'major' => [Type::PING, '', { major: 2 }],
    'flags' => [Type::PING, '', { flags: 1 }], 'type' => [999, '', {}], 'protobuf' => [Type::GENERATE, "\xff", {}]
  }.each do |name, (type, body, header)|
    one.send_bytes(type, body, **header)
    error = one.lone_error
    wanted = { 'major' => :UNSUPPORTED, 'type' => :UNSUPPORTED, 'protobuf' => :FORMAT }.fetch(name, error.code)
    same(error.code, wanted, "code for #{name}")
  end
  expect(one.ask(Ping.new(request_id: new_id)).is_a?(Pong), 'the connection is not usable afterwards')
end

check 'a message before Hello gets an Error' do
  late = Client.new(context, endpoint, hello: false)
  ping = Ping.new(request_id: new_id)
  same(late.ask(ping).code, :PEER, 'code for Ping')
  late.post(again(prompt, request_id: 'early'))
  error = late.await('Error') { |m| m.is_a?(Error) && m.request_id == 'early' }
  same(error.code, :PEER, 'code for Generate')
  late.say_hello
  expect(late.ask(ping).is_a?(Pong), 'no Pong after Hello')
  late.close
end

check 'Stats' do
  stats = one.ask(Stats.new(request_id: new_id))
  same([stats.ready, stats.draining, stats.epoch], [true, false, one.welcome.epoch], 'ready, draining, epoch')
  expect(stats.tokens_generated >= 24 && stats.steps.positive? && stats.uptime_us.positive?, stats.inspect)
  expect(stats.requests_finished.positive? && stats.requests_rejected.positive?, stats.inspect)
  expect(stats.clients >= 4, "clients: #{stats.clients}")
  same(stats.group.count(&:active), 1, 'active worker groups')
end

check 'Ping; Pongs without a Ping are left out' do
  ping = Ping.new(request_id: new_id)
  pong = one.ask(ping)
  same([pong.class, pong.epoch, pong.ready], [Pong, one.welcome.epoch, true], 'Pong')
  deadline = now + LIMIT_S # the server sends the first after 10 s
  while idle.unasked.zero?
    expect(now < deadline, "no Pong came in #{LIMIT_S} s")
    same(idle.receive(0.2), nil, 'a message for the idle connection')
  end
  same(idle.ask(ping).request_id, ping.request_id, 'request_id')
end

[one, two, thief, other, idle].each(&:close)
context.terminate
exit($failed.zero? ? 0 : 1)
